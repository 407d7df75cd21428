"""The house guards itself: rooms, import directions, and what the pure rooms may not touch."""

from __future__ import annotations

import statistics
from collections import Counter
from pathlib import Path

import pytest

import house
import house_reach
from house import BELOW, SRC, files, imports, room_of

PURE = {"model", "failover", "master", "observe"}
WORLD = {"time", "random", "secrets", "os", "pathlib", "socket", "threading", "asyncio", "subprocess"}


@pytest.mark.parametrize("path", files(), ids=lambda p: str(p.relative_to(SRC)))
def test_imports_point_down(path: Path) -> None:
    room = room_of(path)
    assert room in BELOW, f"{room} is not a room of the house (docs/ARCHITECTURE.md)"
    assert house.upward(path) == []


@pytest.mark.parametrize("path", files(), ids=lambda p: str(p.relative_to(SRC)))
def test_pyspark_stays_in_its_room(path: Path) -> None:
    if "engine/spark" in path.as_posix():
        return
    for one in imports(path):
        assert one.module.split(".")[0] not in {"pyspark", "py4j"}, f"{path.name}:{one.line}: {one.module}"


@pytest.mark.parametrize("path", files(), ids=lambda p: str(p.relative_to(SRC)))
def test_pure_rooms_touch_no_world(path: Path) -> None:
    if room_of(path) not in PURE:
        return
    for one in imports(path):
        assert one.module.split(".")[0] not in WORLD, f"{path.name}:{one.line}: a pure room imports {one.module}"


@pytest.mark.parametrize("path", files(), ids=lambda p: str(p.relative_to(SRC)))
def test_no_pickle_and_no_leftovers(path: Path) -> None:
    text = path.read_text()
    for one in imports(path):
        assert one.module.split(".")[0] not in {"pickle", "cloudpickle", "dill"}, (
            f"{path.name}:{one.line}: {one.module}"
        )
    for word in ("TODO", "FIXME", "XXX"):
        assert word not in text, f"{path.name}: {word}"


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
