"""The house guards itself: rooms, import directions, and what the pure rooms may not touch."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

SRC = Path(__file__).parent.parent / "src" / "rekindle"

# A room may import the rooms named here, and itself. Siblings never import each other.
BELOW: dict[str, set[str]] = {
    "errors": set(),
    "model": {"errors"},
    "failover": {"model", "errors"},
    "master": {"failover", "model", "errors"},
    "config": {"errors"},
}
MIDDLE = {"journal", "engine", "observe", "advisor", "drill"}
for room in MIDDLE:
    BELOW[room] = {"master", "failover", "model", "errors", "config"}
BELOW["runtime"] = MIDDLE | BELOW["journal"]
BELOW["api"] = {"runtime"} | BELOW["runtime"]
BELOW["onramp"] = {"api"} | BELOW["api"]
BELOW["testing"] = {"api"} | BELOW["api"]
BELOW["cli"] = BELOW["ui"] = {"testing"} | BELOW["testing"]
BELOW["__init__"] = {"api", "onramp"} | BELOW["api"]

PURE = {"model", "failover", "master", "observe"}
WORLD = {"time", "random", "secrets", "os", "pathlib", "socket", "threading", "asyncio", "subprocess"}


def files() -> list[Path]:
    return sorted(SRC.rglob("*.py"))


def room_of(path: Path) -> str:
    top = path.relative_to(SRC).parts[0]
    return top.removesuffix(".py")


def imports(path: Path) -> Iterator[tuple[str, int, bool]]:
    """(absolute module, line, stands at module level) of each import in a file."""
    tree = ast.parse(path.read_text())
    top_level = set(map(id, tree.body))
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield alias.name, node.lineno, id(node) in top_level
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}:{node.lineno}: relative import"
            yield node.module or "", node.lineno, id(node) in top_level
            if node.module == "rekindle":
                for alias in node.names:
                    yield f"rekindle.{alias.name}", node.lineno, id(node) in top_level


@pytest.mark.parametrize("path", files(), ids=lambda p: str(p.relative_to(SRC)))
def test_imports_point_down(path: Path) -> None:
    room = room_of(path)
    assert room in BELOW, f"{room} is not a room of the house (docs/ARCHITECTURE.md)"
    for module, line, _ in imports(path):
        if not module.startswith("rekindle."):
            continue
        other = module.split(".")[1]
        assert other == room or other in BELOW[room], f"{path.name}:{line}: {room} may not import {other}"


@pytest.mark.parametrize("path", files(), ids=lambda p: str(p.relative_to(SRC)))
def test_pyspark_stays_in_its_room(path: Path) -> None:
    if "engine/spark" in path.as_posix():
        return
    for module, line, _ in imports(path):
        assert module.split(".")[0] not in {"pyspark", "py4j"}, f"{path.name}:{line}: {module}"


@pytest.mark.parametrize("path", files(), ids=lambda p: str(p.relative_to(SRC)))
def test_pure_rooms_touch_no_world(path: Path) -> None:
    if room_of(path) not in PURE:
        return
    for module, line, _ in imports(path):
        assert module.split(".")[0] not in WORLD, f"{path.name}:{line}: a pure room imports {module}"


@pytest.mark.parametrize("path", files(), ids=lambda p: str(p.relative_to(SRC)))
def test_no_pickle_and_no_leftovers(path: Path) -> None:
    text = path.read_text()
    for module, line, _ in imports(path):
        assert module.split(".")[0] not in {"pickle", "cloudpickle", "dill"}, f"{path.name}:{line}: {module}"
    for word in ("TODO", "FIXME", "XXX"):
        assert word not in text, f"{path.name}: {word}"


def test_each_test_file_has_a_name_of_its_own() -> None:
    """pytest collects them by name: two of one name end the whole run before it begins."""
    names = Counter(path.name for path in Path(__file__).parent.rglob("test_*.py"))
    assert [name for name, count in names.items() if count > 1] == []
