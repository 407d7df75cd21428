"""Code that is hard to judge: looking runs nothing of the user's, raises nothing, shows no secret, and ends."""

from __future__ import annotations

import importlib.util
import itertools
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest
from pyspark import cloudpickle

from rekindle.engine.spark.plan.packed import PackedFunction
from rekindle.master.rules.opening import ADDED, changed_parts, part_kind
from rekindle.pipeline.identity.changes import describe_change
from rekindle.pipeline.identity.fingerprint import parts
from rekindle.pipeline.identity.pickle_reader import read

NUMBERS = itertools.count()
Load = Callable[[str], ModuleType]


@pytest.fixture
def load(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Load:
    """A module of the user's from a text; all of one test have one name."""
    name = f"judged_{next(NUMBERS)}"

    def made(text: str) -> ModuleType:
        path = tmp_path / f"{next(NUMBERS)}" / f"{name}.py"
        path.parent.mkdir()
        path.write_text(textwrap.dedent(text))
        spec = importlib.util.spec_from_file_location(name, path)
        assert spec is not None and spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        monkeypatch.setitem(sys.modules, name, module)
        spec.loader.exec_module(module)
        return module

    return made


def changed(load: Load, old: str, new: str) -> set[str]:
    before, after = parts(load(old).step), parts(load(new).step)
    return {name for name in before.keys() | after.keys() if before.get(name) != after.get(name)}


BY_NAME = """
    import importlib
    def step(df):
        return importlib.import_module("{}"), "plan"
"""


@pytest.mark.parametrize("name", ["runs_{}", "package_{}.runs"])
def test_a_module_that_is_named_in_a_text_is_not_imported(
    load: Load, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    name = name.format(next(NUMBERS))
    file = tmp_path / f"{name.replace('.', '/')}.py"
    file.parent.mkdir(exist_ok=True)
    if "." in name:
        (file.parent / "__init__.py").write_text("import sys\nsys.exit(3)\n")
    file.write_text("import sys\nsys.exit(3)\n")
    monkeypatch.syspath_prepend(tmp_path)
    before = parts(load(BY_NAME.format(name)).step)
    assert name not in sys.modules and name.partition(".")[0] not in sys.modules
    file.write_text("import sys\nsys.exit(4)\n")
    importlib.invalidate_caches()
    after = parts(load(BY_NAME.format(name)).step)
    assert {part for part in before if before[part] != after[part]} == {f"compiled:{name}"}
    told = [{f"s.{part}": value for part, value in one.items()} for one in (before, after)]
    assert describe_change(*told) == [f"the file of the module {name}, which s uses, changed"]


def test_a_module_that_ends_the_process_when_it_is_imported_is_told(
    load: Load, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = f"ends_{next(NUMBERS)}"
    (tmp_path / f"{name}.py").write_text("raise SystemExit\n")
    monkeypatch.syspath_prepend(tmp_path)
    assert "code" in parts(load(f"def step(df):\n    import {name}\n    return {name}.x\n").step)


def test_a_variable_of_the_environment_is_never_shown(load: Load, monkeypatch: pytest.MonkeyPatch) -> None:
    text = "import os\ndef step(df):\n    return os.environ['DB_PASSWORD']\n"
    told = []
    for password in ("4711", "4712"):
        monkeypatch.setenv("DB_PASSWORD", password)
        told.append({f"s.{part}": value for part, value in parts(load(text).step).items()})
    assert not any("471" in value for one in told for value in one.values() if not value.startswith("#"))
    assert told[0]["s.environment:DB_PASSWORD"].startswith("#")
    assert describe_change(*told) == ["the environment variable DB_PASSWORD, which s asks for, changed"]
    plain = [{"s.environment:DB_PASSWORD": password} for password in ("4711", "4712")]
    assert describe_change(*plain) == ["the environment variable DB_PASSWORD, which s asks for, changed"]


UNJUDGED = {
    "a connection in a decorator of a package": (
        "unjudged:step.self",
        """
        import contextlib, sqlite3
        class Timed(contextlib.ContextDecorator):
            def __init__(self): self.line = sqlite3.connect(":memory:")
            def __enter__(self): return self
            def __exit__(self, *error): return False
        @Timed()
        def helper(x): return x
        def step(df): return helper(df)
        """,
    ),
    "an object whose class raises": (
        "unjudged:VALUE",
        """
        class Lazy:
            @property
            def __class__(self): raise RuntimeError("outside")
            def __reduce_ex__(self, protocol): raise RuntimeError("outside")
        VALUE = Lazy()
        def step(df): return VALUE
        """,
    ),
}


@pytest.mark.parametrize("name", UNJUDGED)
def test_what_raises_when_it_is_looked_at_is_a_part_that_cannot_be_judged(load: Load, name: str) -> None:
    part, text = UNJUDGED[name]
    assert part.replace("step.", "helper.") in parts(load(text).step)


def test_looking_runs_no_getattr_of_the_users(load: Load) -> None:
    text = """
        import contextlib
        class Table:
            def __init__(self, values): self.__dict__["values"] = values
            def __getattr__(self, name): return self.values[name]
            def __reduce__(self): return type(self), (self.values,)
        class Meta(type):
            def __getattr__(cls, name): raise KeyError(name)
        class Odd(metaclass=Meta):
            RATE = 1
        class Held(Table, contextlib.ContextDecorator):
            def __enter__(self): return self
            def __exit__(self, *error): return False
        TABLE = Table({"a": 1})
        @Held({"a": 3})
        def helper(x): return x
        def step(df): return TABLE, Odd, helper
    """
    before = parts(load(text).step)
    assert [name for name in before if name.startswith("unjudged:")] == []
    assert changed(load, text, text.replace('"a": 1', '"a": 2')) == {"constant:TABLE"}
    assert changed(load, text, text.replace("RATE = 1", "RATE = 2")) == {"constant:Odd.RATE"}
    assert changed(load, text, text.replace('"a": 3', '"a": 2')) == {"attribute:helper.self"}


ORDINARY = """
    import dataclasses, enum, functools
    @dataclasses.dataclass
    class Config:
        rate: int = 1
    class Colour(enum.Enum):
        RED = 1
        def hot(self): return self is Colour.RED
    @functools.singledispatch
    def kind(x): return 0
    @kind.register
    def kind_int(x: int): return x * 5
    LIMIT = 3
    def step(df): return Config(), Colour.RED.hot(), kind(LIMIT)
"""
# As the release before parts of the kinds in `ADDED` told them.
TOLD_BEFORE = {
    "code": "#49ec9aeff39eb28b",
    "constant:Colour.RED": "#165e0f28164bcd6d",
    "constant:Config.rate": "1",
    "constant:LIMIT": "3",
    "default:Config.__init__.rate": "1",
    "helper:Colour": "#cd69a01c92f89701",
    "helper:Colour.hot": "#a6581b95f89a1d28",
    "helper:Config": "#2104238ebe4e552e",
    "helper:Config.__eq__": "#06f3adb7530e8e67",
    "helper:Config.__init__": "#a88c3c7547e57021",
    "helper:__create_fn__.<locals>.__repr__": "#e69bc63ca9fcd5a7",
    "helper:kind": "#d709048e28b100b1",
}


@pytest.mark.skipif(sys.version_info[:2] != (3, 11), reason="each Python compiles what dataclasses made in its own way")
def test_parts_that_earlier_releases_told_are_told_alike(load: Load) -> None:
    """So that their runs are resumed, and not computed again, if nobody changed anything."""
    found = parts(load(ORDINARY).step)
    assert {part: value for part, value in found.items() if part_kind(f"step.{part}") not in ADDED} == TOLD_BEFORE
    told = [{f"step.{part}": value for part, value in one.items()} for one in (TOLD_BEFORE, found)]
    assert changed_parts(told[0], told[1] | {"identity": "2"}) == ()


def test_what_singledispatch_holds_is_seen_and_named(load: Load) -> None:
    before, after = (parts(load(text).step) for text in (ORDINARY, ORDINARY.replace("x * 5", "x * 6")))
    told = [{f"s.{part}": value for part, value in one.items()} for one in (before, after)]
    assert describe_change(*told) == ["kind_int, which s uses, changed"]


LIBRARY = """
RATE = 1
OTHER = 2
def used(x): return x * RATE
"""


@pytest.fixture
def library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str, str], str]:
    """The name of a module of the user's, which lies in another folder each time."""
    name = f"library_{next(NUMBERS)}"

    def made(old: str, new: str) -> str:
        path = tmp_path / f"library{next(NUMBERS)}" / f"{name}.py"
        path.parent.mkdir()
        path.write_text(LIBRARY.replace(old, new))
        monkeypatch.syspath_prepend(path.parent)
        monkeypatch.delitem(sys.modules, name, raising=False)
        importlib.invalidate_caches()
        importlib.import_module(name)
        return name

    return made


LOOKED_INTO = {
    "getattr": "import {0}\ndef step(row): return getattr({0}, 'RA' + row)\n",
    "vars": "import {0}\ndef step(row): return vars({0})['RA' + row]\n",
    "its __dict__": "import {0}\ndef step(row): return {0}.__dict__['RA' + row]\n",
    "handed on": "import {0}\ndef ask(what, name): return getattr(what, name)\ndef step(row): return ask({0}, row)\n",
    "imported inside": "def step(row):\n    import {0} as mine\n    return getattr(mine, 'RA' + row)\n",
    "under another name": "import {0}\ndef step(row):\n    mine = {0}\n    return getattr(mine, 'RA' + row)\n",
    "closed over": "import {0}\ndef made(m):\n    def f(row): return getattr(m, row)\n    return f\nstep = made({0})\n",
}


@pytest.mark.parametrize("name", LOOKED_INTO)
def test_all_values_of_a_module_that_is_looked_into_count(
    load: Load, library: Callable[[str, str], str], name: str
) -> None:
    same, again = (parts(load(LOOKED_INTO[name].format(library("", ""))).step) for _ in range(2))
    assert same == again, "it lies in another folder"
    changed_one = parts(load(LOOKED_INTO[name].format(called := library("RATE = 1", "RATE = 3"))).step)
    assert {part for part in same if same[part] != changed_one[part]} == {f"constant:{called}.RATE"}
    assert f"constant:{called}.OTHER" in same


def test_a_module_that_is_not_looked_into_counts_by_what_is_asked_of_it(
    load: Load, library: Callable[[str, str], str]
) -> None:
    text = "import {0}\ndef step(row): return getattr(row, 'a'), {0}.used(row)\n"
    before, after = (parts(load(text.format(library("OTHER = 2", new))).step) for new in ("OTHER = 2", "OTHER = 3"))
    assert before == after and not any("OTHER" in part for part in before)


def test_names_that_are_looked_up_at_home_are_relative_to_it(load: Load) -> None:
    text = "RATE = 1\ndef step(row): return globals()[row]\n"
    assert changed(load, text, text.replace("RATE = 1", "RATE = 2")) == {"constant:RATE"}


def test_what_every_shell_sets_counts_only_where_it_is_asked_for(load: Load, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("_", "SHLVL", "PWD", "OLDPWD", "_RATE"):
        monkeypatch.setenv(name, "1")
    words = "import os\ndef step(df):\n    return os.environ['_RATE'], {'_': 1, 'PWD': 2}, 'SHLVL', 'OLDPWD'\n"
    assert [one for one in parts(load(words).step) if one.startswith("environment:")] == ["environment:_RATE"]
    for asks in ("os.environ['PWD']", "os.environ.get('PWD')", "os.getenv('PWD', '')"):
        assert "environment:PWD" in parts(load(f"import os\ndef step(df):\n    return {asks}\n").step)


def test_values_of_sparks_own_packages_count(load: Load) -> None:
    text = """
        from pyspark.ml.linalg import Vectors
        WEIGHTS = [Vectors.dense([1.0, 2.0]), {"a": Vectors.sparse(3, {1: 4.0})}]
        def step(df): return WEIGHTS
    """
    assert changed(load, text, text) == set()
    for old, new in (("2.0", "3.0"), ("4.0", "5.0")):
        before, after = (parts(load(one).step) for one in (text, text.replace(old, new)))
        told = [{f"s.{part}": value for part, value in one.items()} for one in (before, after)]
        assert describe_change(*told) == ["the constant WEIGHTS of s changed"]
        assert part_kind(*changed_parts(*told)) in ADDED, "a run of an earlier release is not computed again"


def test_a_module_of_the_users_may_be_called_like_one_of_pythons(
    load: Load, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = "import colorsys\ndef step(df): return colorsys.RATE\n"
    found = []
    for rate in ("1", "2"):
        folder = tmp_path / f"named{rate}"
        folder.mkdir()
        (folder / "colorsys.py").write_text(f"RATE = {rate}\n")
        monkeypatch.syspath_prepend(folder)
        monkeypatch.delitem(sys.modules, "colorsys", raising=False)
        found.append(parts(load(text).step))
    monkeypatch.delitem(sys.modules, "colorsys")
    assert [one["constant:colorsys.RATE"] for one in found] == ["1", "2"]
    plain = "import json, sys, os.path, builtins\ndef step(df): return json, sys, os.path, builtins\n"
    assert set(parts(load(plain).step)) == {"code"}


ENDLESS = {
    "held twice at each level": "ALL = [0]\nfor _ in range(60): ALL = [ALL, ALL]\n",
    "each holds each": "ALL = [[] for _ in range(40)]\nfor one in ALL: one.extend(ALL)\n",
    "objects": (
        "class Node:\n    def __init__(self): self.to = []\nALL = [Node() for _ in range(40)]\n"
        "for one in ALL: one.to = ALL\n"
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", ENDLESS)
def test_a_look_at_what_is_held_by_many_ends(load: Load, name: str) -> None:
    found = parts(load(f"{ENDLESS[name]}def step(df): return ALL\n").step)
    assert {"unjudged:ALL", "constant:ALL"} & found.keys()


def test_what_is_held_by_some_is_judged(load: Load) -> None:
    text = "ROW = tuple(range(200))\nALL = [ROW] * 1000\ndef step(df): return ALL\n"
    assert changed(load, text, text.replace("range(200)", "range(201)")) == {"constant:ALL"}


IN_ITS_FOLDER = """
    from pathlib import Path
    HERE = Path(__file__).parent
    DATA = HERE / "{}"
    def row(x): return len(str(DATA))
"""


def test_a_path_that_a_packed_function_holds_counts_by_how_it_lies_to_its_file(load: Load) -> None:
    """As `rekindle run file.py` sends it: by value, with the objects that it holds in pieces."""

    def packed(folder: str) -> dict[str, str]:
        module = load(IN_ITS_FOLDER.format(folder))
        cloudpickle.register_pickle_by_value(module)
        try:
            return parts(PackedFunction(read(cloudpickle.dumps(module.row), {})))
        finally:
            cloudpickle.unregister_pickle_by_value(module)

    assert packed("data") == packed("data"), "the same project in another folder"
    assert packed("data") != packed("other")
