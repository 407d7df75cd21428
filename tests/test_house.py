"""The house guards itself: rooms, import directions, and what the pure rooms may not touch."""

from __future__ import annotations

import re
import statistics
from collections import Counter
from pathlib import Path

import pytest

import house
import house_reach
from house import BELOW, SRC, files, imports, is_pure, room_of

WORLD = {"time", "random", "secrets", "os", "pathlib", "socket", "threading", "asyncio", "subprocess"}

GENERIC_RUNTIME = ("loop", "ownership", "snapshots")
MACHINE_ROOMS = ("rekindle.master", "rekindle.failover", "rekindle.engine")


def named(path: Path, one: house.Import) -> str:
    return f"{path.relative_to(SRC)}:{one.line}: {one.module}"


def imported(paths: list[Path], tops: set[str]) -> list[str]:
    """Where these files import one of these packages."""
    return [named(path, one) for path in paths for one in imports(path) if one.module.split(".")[0] in tops]


def test_imports_point_down() -> None:
    assert [path for path in files() if room_of(path) not in BELOW[""]] == [], "no room of docs/ARCHITECTURE.md"
    assert [wrong for path in files() for wrong in house.upward(path)] == []


def test_rooms_that_stand_side_by_side_do_not_know_each_other() -> None:
    assert not {"journal", "observe"} & BELOW[""]["engine"] and not {"journal", "observe"} & BELOW[""]["pipeline"]
    assert not {"testing", "local_cluster"} & BELOW[""]["__init__"]


def test_pyspark_stays_in_its_room() -> None:
    others = [path for path in files() if "engine/spark" not in path.as_posix()]
    assert imported(others, {"pyspark", "py4j"}) == []


def test_one_room_calls_into_the_jvm() -> None:
    """What another Spark has otherwise is looked for in one place. Constructors of Spark are called in Java."""
    port = SRC / "engine" / "spark" / "jvm"
    members = r"\._(jvm|jdf|jsparkSession|jsc|gateway|jrdd|jc|jschema)\b"
    private = re.compile(members + r"|\.(java|scala|org\.apache)\.|PythonUtils")
    lines = [(path, line) for path in files() for line in path.read_text().splitlines() if private.search(line)]
    outside = [line for path, line in lines if port not in path.parents and '"' not in line]
    assert outside == [] and imported([path for path in files() if port not in path.parents], {"py4j"}) == []
    assert sum(port in path.parents for path, _ in lines) > 5, "the pattern finds such calls"
    assert [line for path, line in lines if port in path.parents and "org.apache" in line] == []


def test_only_the_engine_names_its_modules() -> None:
    """As an import or as text. What fingerprints were recorded with is no way to a module."""
    others = [path for path in files() if room_of(path) != "engine" and path.name != "recorded_names.py"]
    assert [path for path in others if "rekindle.engine.spark." in path.read_text()] == []
    inside = [path for path in files() if room_of(path) == "engine" and "engine/spark/" not in path.as_posix()]
    assert [path.name for path in inside if "rekindle.engine.spark." in path.read_text()] == ["engine_adapter.py"]


def test_only_publishing_tells_kinds_of_targets_apart() -> None:
    """So that a new one is a file in both rooms and a row in both lists."""
    rooms = ("publish/", "engine/spark/publish/", "pipeline/identity/recorded_names.py")
    others = [path for path in files() if not path.relative_to(SRC).as_posix().startswith(rooms)]
    kinds = re.compile(
        r"rekindle\.publish\.(files|table|directory|replace|kafka|each_batch)\b|publish\.targets import .*[A-SU-Z]\w+"
    )
    assert [path for path in others if kinds.search(path.read_text())] == []


def test_pure_rooms_touch_no_world() -> None:
    pure = [path for path in files() if is_pure(path)]
    assert imported(pure, WORLD) == []
    rules = {"errors", "failover", "master", "model", "observe", "remedies", "streams"}
    others = {one.module.split(".")[1] for path in pure for one in imports(path) if one.module.startswith("rekindle.")}
    assert others <= rules and SRC / "gc" / "policy.py" in pure


def test_the_loop_and_what_opens_it_know_no_machine() -> None:
    """Another master, such as one for streams, is another value of `model/machine.py` and touches none of these."""
    generic = [SRC / "model" / "machine.py", *(SRC / "runtime" / f"{name}.py" for name in GENERIC_RUNTIME)]
    assert [named(path, one) for path in generic for one in imports(path) if one.module.startswith(MACHINE_ROOMS)] == []


def test_no_pickle_and_no_leftovers() -> None:
    assert imported(files(), {"pickle", "cloudpickle", "dill"}) == []
    words = ("TODO", "FIXME", "XXX")
    assert [f"{path.name}: {word}" for path in files() for word in words if word in path.read_text()] == []


def test_each_test_file_has_a_name_of_its_own() -> None:
    """pytest collects them by name: two of one name end the whole run before it begins."""
    names = Counter(path.name for path in Path(__file__).parent.rglob("test_*.py"))
    assert [name for name, count in names.items() if count > 1] == []


def test_the_rooms() -> None:
    assert house.circles() == []
    assert house.roomless() == []
    assert statistics.median(house.lengths()) <= house.MEDIAN_MAX


PACKAGE = {
    "__init__.py": "from pack.api import Face\n__all__ = ['Face']",
    "api.py": """
from pack import deep
ADAPTER = 'pack.adapter'
UNUSED = 1
class Face:
    def open(self): return load(ADAPTER).prepare(deep.used())
    def _repr_html_(self): return ''
class Other:
    def open(self): return deep.unused()
""",
    "deep.py": """
def used(): return _helper()
def _helper(): return 1
def unused(): return only_by_unused()
def only_by_unused(): return 2
""",
    "adapter.py": "def prepare(x): return x\ndef nobody(): pass",
}


def test_what_production_reaches(tmp_path: Path) -> None:
    root = tmp_path / "pack"
    root.mkdir()
    for name, text in PACKAGE.items():
        (root / name).write_text(text)
    modules = [house_reach.read(path, root) for path in sorted(root.glob("*.py"))]

    def left(*roots: tuple[str, str]) -> list[str]:
        return [one.shown.removeprefix("pack.") for one in house_reach.unreached(modules, roots)]

    dead = ["adapter:nobody", "api:UNUSED", "api:Other", "api:Other.open", "deep:unused", "deep:only_by_unused"]
    assert left(("pack", "*"), ("pack.api", "Face.open")) == dead
    assert left(("pack", "*"), ("pack.api", "Face.open"), ("pack.deep", "unused")) == dead[:-2]
    assert "adapter:prepare" in left(("pack", "*")), "nothing calls open"


VALUES = """
class Base(Struct): a: int; b: int
class Wide(Base): c: int; d: int; e: int; f: int
class Named(Base, kw_only=True): c: int; d: int; e: int; f: int
@dataclass(frozen=True)
class Plain:
    a: int; b: int; c: int; d: int; e: int
    f: int = field(init=False)
    g: ClassVar[int] = 0
    def seven(self, a, b, c, d, e, f, g): ...
    def six(self, a, b, c, d, e, f, *, g): ...
def six(a, b, c, d, e, f): ...
"""


def test_what_takes_too_much_by_position(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(house, "SRC", tmp_path)
    (tmp_path / "values.py").write_text(VALUES)
    assert [one.split(": ")[1] for one in house.positional()] == [
        "Wide takes 6 fields by position",
        "seven takes 7 by position",
    ]


def test_long_lists_of_arguments_are_given_by_name() -> None:
    assert house.positional() == []


def test_production_reaches_every_name() -> None:
    """Beside what `house.KEPT` lists, and what tests of Rekindle use of `rekindle.testing`."""
    assert house.unreached() == []
