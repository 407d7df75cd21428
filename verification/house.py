"""`make house`: is the house in order? One figure for each rule, what breaks it, and exit 0 only if every target holds.

circles           modules that import each other, in a ring of any length
upward            imports of a room that is not below (`LINES`)
roomless          files in a folder that the drawing of `docs/ARCHITECTURE.md` does not name
doubled_classes   public class names that two files define
shared_files      file names that stand in three or more folders
unknown_words     domain words of public class names that the glossary does not have
positional        functions that take more than 6 arguments by position, and values that take more than 5
unreached         names that production does not reach (`house_reach.py`), beside `KEPT`
median_lines      of a file of the package
targets, graph, fingerprints     how many classes have a field of that name

`tests/test_house.py` uses the same functions.
"""

from __future__ import annotations

import ast
import re
import statistics
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import house_reach

ROOT = Path(__file__).parent.parent
SRC = ROOT / "src" / "rekindle"

PARAMETERS_MAX = 6
FIELDS_MAX = 5
MEDIAN_MAX = 149
CARRIERS_MAX = 3
CARRIED = ("targets", "graph", "fingerprints")

# The rooms of a folder in lines, lowest first: a room may import those of the lines below its own.
LINES: dict[str, tuple[str, ...]] = {
    "": (
        "remedies",
        "errors",
        "config model storage",
        "failover journal",
        "master",
        "streams",
        "observe publish results",
        "pipeline",
        "engine",
        "runtime",
        "gc",
        "service",
        "api",
        "local_cluster onramp testing",
        "cli __init__",
    ),
    "master": ("facts", "state", "dispatch", "rules", "decide", "machine"),
    "engine/spark": (
        "jvm",
        "failures user_session",
        "session",
        "plan publish",
        "run stream",
        "prepare script start",
        "inspect",
        "adapter",
    ),
}
# Rooms of pure rules, and files of such rules beside them.
PURE = ("model", "failover", "master", "streams", "observe")
PURE_FILES = ("gc/policy.py", "remedies.py")
# What a room may not import, although it stands below: pure rooms know no world, an engine and what it is made of know
# neither journals nor views, and the public names are not those of helpers.
APART: dict[str, set[str]] = {
    **{room: {"config", "storage", "journal"} for room in PURE},
    **{room: {"journal", "observe"} for room in ("publish", "results", "pipeline", "engine")},
    "__init__": {"local_cluster", "testing"},
}


def _below(folder: str) -> dict[str, set[str]]:
    below: dict[str, set[str]] = {}
    for line in LINES[folder]:
        below |= {room: set(below) - APART.get(room, set()) for room in line.split()}
    return below


BELOW = {folder: _below(folder) for folder in LINES}

# What production does not reach and stays, with what it reaches: the issue on the execution graph draws regions,
# pipelined vertices, and offset, interval and broadcast edges for users, and makes use of `restart_set` and of the
# refusal of `individual`; the rest is for tests of Rekindle.
KEPT: tuple[tuple[str, str], ...] = (
    ("rekindle.model.graph", "promoted"),
    ("rekindle.model.regions", "*"),
)
KEPT_ROOMS = ("rekindle.testing", "rekindle.local_cluster")
ENTRIES = (("rekindle", "*"), ("rekindle.cli.main", "main"))

# Words of class names that a reader of any program knows, and those that only join others.
GENERAL = frozenset(
    """
    action adapter again ahead all already answer any append application argument array at background bar base basis
    binding builder built by bytes call cancel case cast catalog cause cell change check checksums choice class client
    clock close closing cluster code codec collector color column command commit compare comparison compile condition
    config console constants context copy count counter cycle daemon data decision declaration default delay delayed
    delete deleted deletion demo died digits directory disk display done drawing driver dtype earlier edge edit end
    engine entry enum error event exit exponential facts fail failed failure field file files find finder fixed
    folder format found frame function gc give gone graph group handler has hash hidden history host id identity import
    index info input inspection intent interrupted interval into item job json key kind label later lazy length library
    limit line link list load local location log logical loop loss lost machine made main map member memory message
    method mode module monitor name named names needed newer newest no node not notice number object old one only
    open opened options order output owner package page parameter parse parser part path pattern phase physical
    pipeline planned pointer policy pool port position prepare process program progress property protocol put python
    query raise range rate read reader recomputed record registry reject rekindle release removable replace report
    request result resumable root row rule run running runs safety same sample scan schema scope script seed server
    session set setting settings setup shape share simulated sink size source span spark spec spelling start started
    state status step still stop stopped storage store stores stream struct succeed summary suspected system table
    take target task terminal text there thread tick time timeline timeout timer times top tree type types unbuilt
    unchanged unknown unreadable until untouched up usage use user value values variable version vertices view
    visitor wake way whole whose word words work worker world write writer written yet
    """.split()
)


@dataclass(frozen=True, slots=True)
class Figure:
    """One rule: what was counted, the most that it may be, and each case in a line of its own."""

    name: str
    value: float
    most: float
    cases: tuple[str, ...]

    @property
    def holds(self) -> bool:
        return self.value <= self.most


@dataclass(frozen=True, slots=True)
class Import:
    """`module` is absolute. An import at module level runs when the file is imported."""

    module: str
    line: int
    is_at_top: bool


def files() -> list[Path]:
    return sorted(SRC.rglob("*.py"))


def room_of(path: Path) -> str:
    return path.relative_to(SRC).parts[0].removesuffix(".py")


def is_pure(path: Path) -> bool:
    return room_of(path) in PURE or shown(path) in PURE_FILES


def shown(path: Path) -> str:
    return str(path.relative_to(SRC))


def imports(path: Path) -> Iterator[Import]:
    """Each import in a file; `from a import b` is one of `a.b` where that is a module of ours."""
    tree = _tree(path)
    top = set(map(id, tree.body))
    for node in ast.walk(tree):
        is_at_top = id(node) in top
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield Import(alias.name, node.lineno, is_at_top)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}:{node.lineno}: relative import"
            for alias in node.names:
                inner = f"{node.module}.{alias.name}"
                yield Import(inner if _is_module(inner) else node.module or "", node.lineno, is_at_top)


def upward(path: Path) -> list[str]:
    """The imports of a file that do not point down, among the rooms and inside of them."""
    found = []
    own = path.relative_to(SRC).with_suffix("").as_posix()
    for one in imports(path):
        top, *inner = one.module.split(".")
        for folder, below in BELOW.items() if top == SRC.name and inner else ():
            here, there = _inside(own, folder), _inside("/".join(inner), folder)
            if here and there and here != there and there not in below.get(here, set()):
                found.append(f"{shown(path)}:{one.line}: {here} may not import {there}")
    return list(dict.fromkeys(found))


def _inside(path: str, folder: str) -> str:
    """The room of a folder in which a file is, or nothing."""
    if folder:
        path = path.removeprefix(f"{folder}/") if path.startswith(f"{folder}/") else ""
    return path.split("/")[0]


def circles() -> list[str]:
    """Rings of modules, by every import, also those inside functions and those for types only."""
    modules = {house_reach.module_name(path, SRC): path for path in files()}
    below = {name: {one.module for one in imports(path)} & modules.keys() - {name} for name, path in modules.items()}
    return [" -> ".join(sorted(ring)) for ring in _rings(below)]


def roomless() -> list[str]:
    """Files that stand in no folder, or are no file, of the drawing of the rooms."""
    text = (ROOT / "docs" / "ARCHITECTURE.md").read_text()
    drawing = text.split("## Rooms", 1)[1].split("```")[1]
    rooms = set(re.findall(r"[\w.]+/", drawing))
    alone = {word for line in drawing.splitlines() for word in re.split(r",? +", line.split("   ")[0])}
    found = []
    for path in files():
        *folders, name = path.relative_to(SRC).parts
        is_named = all(f"{one}/" in rooms for one in folders)
        if not is_named or (not folders and not {name, name.removesuffix(".py")} & alone):
            found.append(shown(path))
    return found


def doubled_classes() -> list[str]:
    homes: dict[str, list[str]] = {}
    for path, node in _public_classes():
        homes.setdefault(node.name, []).append(shown(path))
    return [f"{name}: {', '.join(where)}" for name, where in sorted(homes.items()) if len(where) > 1]


def shared_files() -> list[str]:
    homes: dict[str, list[str]] = {}
    for path in files():
        if not path.name.startswith("__"):
            homes.setdefault(path.name, []).append(shown(path.parent))
    return [f"{name}: {', '.join(where)}" for name, where in sorted(homes.items()) if len(where) > 2]


def unknown_words() -> list[str]:
    rows = re.findall(r"^\| (.+?) \|", (ROOT / "docs" / "glossary.md").read_text(), re.MULTILINE)
    known = {word for row in rows for word in re.findall(r"[a-z]+", row.lower())} | GENERAL
    homes: dict[str, set[str]] = {}
    for _, node in _public_classes():
        for word in re.findall(r"[A-Z]+(?![a-z])|[A-Z][a-z]+", node.name):
            if not _has(known, word.lower()):
                homes.setdefault(word.lower(), set()).add(node.name)
    return [f"{word}: {', '.join(sorted(names))}" for word, names in sorted(homes.items())]


def positional() -> list[str]:
    """Functions and values that take too many arguments by position."""
    trees = {path: _tree(path) for path in files()}
    classes = {node.name: node for tree in trees.values() for node in ast.walk(tree) if isinstance(node, ast.ClassDef)}
    found = []
    for path, tree in trees.items():
        methods = {
            id(one) for node in ast.walk(tree) if isinstance(node, ast.ClassDef) for one in node.body if _has_self(one)
        }
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                count = len(node.args.posonlyargs) + len(node.args.args) - (id(node) in methods)
                if count > PARAMETERS_MAX:
                    found.append(f"{shown(path)}:{node.lineno}: {node.name} takes {count} by position")
            elif isinstance(node, ast.ClassDef):
                count = _positional_fields(node, classes)
                if count > FIELDS_MAX:
                    found.append(f"{shown(path)}:{node.lineno}: {node.name} takes {count} fields by position")
    return found


def unreached() -> list[str]:
    """Names that production does not reach, beside those that are kept and what they reach."""
    modules = [house_reach.read(path, SRC) for path in files()]
    ours = [(one.name, "*") for one in modules if one.name.startswith(KEPT_ROOMS)]
    left = house_reach.unreached(modules, [*_public(modules), *ENTRIES, *KEPT, *ours])
    return [f"{one.shown} (line {one.line})" for one in left]


def lengths() -> list[int]:
    return sorted(len(path.read_text().splitlines()) for path in files())


def carriers(name: str) -> list[str]:
    """The classes that have a field of that name: declared in the body, or set by a method."""
    found = []
    for path in files():
        for node in ast.walk(_tree(path)):
            if isinstance(node, ast.ClassDef) and name in _fields_of(node):
                found.append(f"{name}: {shown(path)}: {node.name}")
    return found


def figures() -> list[Figure]:
    def of(name: str, cases: Sequence[str], most: int = 0) -> Figure:
        return Figure(name, len(cases), most, tuple(cases))

    return [
        of("circles", circles()),
        of("upward", [one for path in files() for one in upward(path)]),
        of("roomless", roomless()),
        of("doubled_classes", doubled_classes()),
        of("shared_files", shared_files()),
        of("unknown_words", unknown_words()),
        of("positional", positional()),
        of("unreached", unreached()),
        Figure("median_lines", statistics.median(lengths()), MEDIAN_MAX, ()),
        *(of(name, carriers(name), CARRIERS_MAX) for name in CARRIED),
    ]


def main() -> int:
    found = figures()
    for one in found:
        print(f"{one.name}: {one.value:g}, at most {one.most:g}{'' if one.holds else ': not yet reached'}")
        for case in () if one.holds else one.cases:
            print(f"  {case}")
    is_in_order = all(one.holds for one in found)
    print("RESULT house", *(f"{one.name}={one.value:g}" for one in found), f"in_order={is_in_order}")
    return 0 if is_in_order else 1


@cache
def _tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


def _is_module(name: str) -> bool:
    top, *inner = name.split(".")
    path = SRC.joinpath(*inner)
    return top == SRC.name and bool(inner) and (path.is_dir() or path.with_suffix(".py").is_file())


def _public_classes() -> Iterator[tuple[Path, ast.ClassDef]]:
    for path in files():
        for node in _tree(path).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                yield path, node


def _has(known: Iterable[str], word: str) -> bool:
    """Whether a word is known, in this or another form: `adopted` with `adopt`, `copies` with `copy`."""
    roots = {word, *(word.removesuffix(end) for end in ("s", "es", "d", "ed", "ing", "er", "r"))}
    roots |= {f"{one}e" for one in roots} | {f"{one[:-1]}y" for one in roots if one.endswith("i")}
    return any(one in roots for one in known)


def _has_self(node: ast.stmt) -> bool:
    if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        return False
    return not any(isinstance(one, ast.Name) and one.id == "staticmethod" for one in node.decorator_list)


def _positional_fields(node: ast.ClassDef, classes: Mapping[str, ast.ClassDef]) -> int:
    """How many fields a dataclass, a Struct or a NamedTuple takes by position, those of its bases included; 0 for any
    other class."""
    if not _is_value(node, classes):
        return 0
    count = 0
    for base in _bases(node):
        if base in classes and base != node.name:
            count += _positional_fields(classes[base], classes)
    if _is_keyword_only(node):
        return count
    for one in node.body:
        if isinstance(one, ast.AnnAssign) and isinstance(one.target, ast.Name):
            annotation = ast.unparse(one.annotation)
            if annotation.endswith("KW_ONLY"):
                break
            is_given = not annotation.startswith("ClassVar") and "init=False" not in ast.unparse(
                one.value or one.target
            )
            count += is_given
    return count


def _is_value(node: ast.ClassDef, classes: Mapping[str, ast.ClassDef]) -> bool:
    decorators = {ast.unparse(one).split("(")[0].split(".")[-1] for one in node.decorator_list}
    bases = _bases(node)
    inherited = any(base in classes and base != node.name and _is_value(classes[base], classes) for base in bases)
    return "dataclass" in decorators or bool(bases & {"Struct", "NamedTuple"}) or inherited


def _is_keyword_only(node: ast.ClassDef) -> bool:
    words = [
        *node.keywords,
        *(word for one in node.decorator_list if isinstance(one, ast.Call) for word in one.keywords),
    ]
    return any(one.arg == "kw_only" and ast.unparse(one.value) == "True" for one in words)


def _bases(node: ast.ClassDef) -> set[str]:
    return {ast.unparse(base).split("[")[0].split(".")[-1] for base in node.bases}


def _fields_of(node: ast.ClassDef) -> set[str]:
    found = {one.target.id for one in node.body if isinstance(one, ast.AnnAssign) and isinstance(one.target, ast.Name)}
    for method in node.body:
        for one in ast.walk(method) if isinstance(method, ast.FunctionDef) else ():
            if isinstance(one, ast.Attribute) and isinstance(one.ctx, ast.Store) and ast.unparse(one.value) == "self":
                found.add(one.attr)
    return found


def _public(modules: Sequence[house_reach.Module]) -> Iterator[tuple[str, str]]:
    """The public methods of the classes that `import rekindle` offers."""
    (top,) = (one for one in modules if one.name == SRC.name)
    units = {unit.key: unit for one in modules for unit in one.units}
    for home, name in top.bound.values():
        for module, key in units:
            if module == home and key.startswith(f"{name}.") and not key.startswith(f"{name}._"):
                yield module, key


def _rings(below: Mapping[str, set[str]]) -> list[set[str]]:
    """The sets of two or more names that all reach each other."""
    reach: dict[str, set[str]] = {}
    for start in below:
        seen: set[str] = set()
        waiting = list(below[start])
        while waiting:
            name = waiting.pop()
            if name not in seen:
                seen.add(name)
                waiting.extend(below[name])
        reach[start] = seen
    rings: list[set[str]] = []
    for name in below:
        ring = {one for one in reach[name] if name in reach[one]}
        if name in ring and ring not in rings:
            rings.append(ring)
    return rings


if __name__ == "__main__":
    sys.exit(main())
