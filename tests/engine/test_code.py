"""What counts as a change of a user's code, row by row, and under which name."""

from __future__ import annotations

import functools
import importlib.util
import itertools
import os
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

from rekindle.pipeline.identity.fingerprint import is_task_bound, parts

NUMBERS = itertools.count()
BASE = '''
    import functools
    import threading
    from dataclasses import dataclass
    from enum import Enum
    import numpy as np
    LIMIT = 3
    WORDS = {"b", "a", "c"}
    TABLE = np.array([1.5, 2.5])
    RULES = {"one": lambda x: x + 1, "two": [lambda x: x + 2]}
    LOCK = threading.Lock()

    class Colour(Enum):
        RED = 1

    @dataclass
    class Rate:
        factor: float = 2.0
        def of(self, x):
            return x * self.factor

    RATE = Rate(2.5)

    def inner(x, *, step=1):
        """Adds."""
        return x + step

    bound = functools.partial(inner, step=5)
    first, second = functools.partial(inner, step=6), functools.partial(inner, step=7)

    def helper(x):
        return inner(x)

    def logged(function):
        @functools.wraps(function)
        def wrapper(*args):
            return function(*args)
        return wrapper

    @logged
    def decorated(x):
        return x - 1

    class Base:
        def run(self, x):
            return x * 7

    class Tool(Base):
        SCALE = 10
        @classmethod
        def made(cls):
            return cls()
        @staticmethod
        def plain(x):
            return x / 3

    def step(df, size=10, *, mode="fast"):
        """Reads."""
        with LOCK:
            chosen = RULES["one"]
        try:
            total = helper(df) * LIMIT
        except ValueError:
            total = 0
        return total, bound, first, second, decorated, Tool.made(), RATE, TABLE, Colour.RED, "a" in {"a", "b"}, WORDS
'''
SAME = [
    ("return inner(x)", "return  inner(x)", "white space"),
    ("def step(df", "# better\n    def step(df", "a comment, and where it stands"),
    ('"""Reads."""', '"""Reads everything."""', "documentation"),
    ("def helper(x):", "def helper(x: int) -> int:", "an annotation"),
    ("return total, bound", "return (\n            total, bound", "layout"),
    ("LIMIT = 3", "UNUSED = 1\n    LIMIT = 3", "a name it does not use"),
    ('{"b", "a", "c"}', '{"c", "b", "a"}', "the order of a set"),
]
CHANGES = [
    ("* LIMIT", "+ LIMIT", "code", "its own body"),
    ("total = 0", "total = 1", "code", "a literal"),
    ('"a" in {"a", "b"}', '"a" in {"a", "d"}', "code", "a literal set"),
    ("size=10", "size=11", "default:size", "a default"),
    ('mode="fast"', 'mode="slow"', "default:mode", "a default by keyword"),
    ("LIMIT = 3", "LIMIT = 4", "constant:LIMIT", "a constant"),
    ("LIMIT = 3", "LIMIT = [3]", "constant:LIMIT", "a constant of another type"),
    ('"a", "c"}', '"a", "d"}', "constant:WORDS", "a set"),
    ("2.5])", "2.75])", "constant:TABLE", "an array of a package"),
    ("Rate(2.5)", "Rate(3.5)", "constant:RATE", "the state of an object"),
    ("x * self.factor", "x / self.factor", "helper:Rate.of", "a method of an object's class"),
    ("RED = 1", "RED = 2", "constant:Colour.RED", "a member of an enumeration"),
    ("return inner(x)", "return -inner(x)", "helper:helper", "a helper"),
    ("return x + step", "return x - step", "helper:inner", "a helper of a helper"),
    ("step=1):", "step=2):", "default:inner.step", "a default of a helper"),
    ("step=5", "step=8", "constant:bound", "what partial binds"),
    (
        "step=6), functools.partial(inner, step=7)",
        "step=7), functools.partial(inner, step=6)",
        "constant:first",
        "swapped",
    ),
    ("x: x + 1", "x: x + 3", "helper:<lambda>", "a function in a container"),
    ("x: x + 2", "x: x + 4", "helper:<lambda>#2", "a function in a container in a container"),
    ("return x - 1", "return x - 2", "helper:decorated", "a decorated function"),
    ("return function(*args)", "return function(*args) or 0", "helper:logged.<locals>.wrapper", "its decorator"),
    ("SCALE = 10", "SCALE = 11", "constant:Tool.SCALE", "a constant of a class"),
    ("return x / 3", "return x / 4", "helper:Tool.plain", "a static method"),
    ("return cls()", "return cls", "helper:Tool.made", "a class method"),
    ("return x * 7", "return x * 8", "helper:Base.run", "a method of a base class"),
    ("class Tool(Base)", "class Tool", "helper:Tool", "a base class"),
]

Load = Callable[[str], ModuleType]


@pytest.fixture
def load(tmp_path: Path) -> Load:
    def made(text: str) -> ModuleType:
        path = tmp_path / f"user_{next(NUMBERS)}.py"
        path.write_text(textwrap.dedent(text))
        spec = importlib.util.spec_from_file_location(path.stem, path)
        assert spec is not None and spec.loader is not None
        module = sys.modules[path.stem] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module

    return made


def changed(load: Load, old: str, new: str) -> set[str]:
    before, after = parts(load(old).step), parts(load(new).step)
    return {name for name in before.keys() | after.keys() if before.get(name) != after.get(name)}


@pytest.mark.parametrize(("old", "new"), [pytest.param(*row[:2], id=row[2]) for row in SAME])
def test_what_is_no_change(load: Load, old: str, new: str) -> None:
    assert old in BASE
    text = BASE.replace(old, new)
    if new.startswith("return ("):
        text = text.rstrip() + "\n    )\n"
    assert changed(load, BASE, text) == set()


@pytest.mark.parametrize(("old", "new", "part"), [pytest.param(*row[:3], id=row[3]) for row in CHANGES])
def test_what_is_a_change_and_its_name(load: Load, old: str, new: str, part: str) -> None:
    assert old in BASE
    found = changed(load, BASE, BASE.replace(old, new))
    assert part in found
    assert len(found) <= 3, found


def test_packages_count_by_version(load: Load) -> None:
    import numpy

    found = parts(load(BASE).step)
    assert found["package:numpy"] == numpy.__version__
    assert [name for name in found if name.startswith("package:")] == ["package:numpy"]
    lazy = "def step(df):\n    import pandas.api\n    from os import path\n    return pandas.api, path\n"
    assert {name for name in parts(load(lazy).step) if ":" in name} == {"package:pandas"}


def test_modules_of_the_users_own_count_by_what_is_asked_of_them(load: Load, monkeypatch: pytest.MonkeyPatch) -> None:
    library = "RATE = 2\ndef used(x):\n    return x * RATE\ndef unused(x):\n    return x\n"
    by_name = "import mine\ndef step(df):\n    return mine.used(df)\n"
    inside = "def step(df):\n    from mine import used\n    return used(df)\n"
    for text in (by_name, inside):
        found = []
        for edit in (("", ""), ("x * RATE", "x + RATE"), ("RATE = 2", "RATE = 3"), ("return x\n", "return -x\n")):
            monkeypatch.setitem(sys.modules, "mine", load(library.replace(*edit)))
            sys.modules["mine"].__name__ = "mine"
            found.append(parts(load(text).step))
        same, code, constant, unused = found
        assert same == unused
        assert {name for name in same if same[name] != code[name]} == {"helper:mine.used"}
        assert {name for name in same if same[name] != constant[name]} == {"constant:mine.RATE"}


def test_a_closure_counts(load: Load) -> None:
    module = load("def made(factor):\n    def step(df):\n        return df * factor\n    return step\n")
    assert parts(module.made(2)) == parts(module.made(2))
    assert parts(module.made(2))["closure:factor"] == "2"
    assert parts(module.made(3))["closure:factor"] == "3"


def test_a_step_may_be_any_callable(load: Load) -> None:
    text = """
        class Step:
            def __init__(self, n):
                self.n = n
            def __call__(self, df):
                return self.n
    """
    one, two = load(text), load(text.replace("return self.n", "return -self.n"))
    assert parts(one.Step(1)) == parts(one.Step(1)) != parts(one.Step(2))
    assert parts(one.Step(1)) != parts(two.Step(1))
    assert parts(one.Step(1).__call__) != parts(two.Step(1).__call__)
    assert parts(functools.partial(one.Step.__call__, 1)) != parts(functools.partial(one.Step.__call__, 2))


def test_udf_objects_count_by_the_function_they_hold(load: Load) -> None:
    text = """
        import pandas as pd
        from pyspark.sql import functions as F
        from pyspark.sql.types import IntegerType, LongType
        @F.udf(LongType())
        def plain(x):
            return x + 1
        @F.pandas_udf(LongType())
        def many(x: pd.Series) -> pd.Series:
            return x + 2
        lazy = F.udf(lambda x: x + 3, LongType())
        def step(df):
            return df.select(plain("a"), many("a"), lazy("a"))
    """
    for edit, part in (("x + 1", "helper:plain"), ("x + 2", "helper:many"), ("x + 3", "helper:<lambda>")):
        assert changed(load, text, text.replace(edit, "x")) == {part}
    assert changed(load, text, text.replace("lambda x: x + 3, LongType()", "lambda x: x + 3, IntegerType()")) == {
        "code"
    }


def test_what_cannot_be_judged_is_named_and_differs_in_every_process(load: Load) -> None:
    found = parts(load("import socket\nLINE = socket.socket()\nLINE.close()\ndef step(df):\n    return LINE\n").step)
    assert found["unjudged:LINE"].startswith("socket.socket ")


def test_a_file_edited_after_it_was_loaded_does_not_hide_what_runs(load: Load) -> None:
    module = load(BASE)
    before = parts(module.step)
    assert module.__file__ is not None
    Path(module.__file__).write_text(textwrap.dedent(BASE.replace("* LIMIT", "+ LIMIT")))
    edited = parts(module.step)["code"]
    assert edited != parts(load(BASE.replace("* LIMIT", "+ LIMIT")).step)["code"]
    assert parts(load(BASE).step) == before


def test_functions_that_call_each_other_end(load: Load) -> None:
    text = "def even(n):\n    return n == 0 or odd(n - 1)\ndef odd(n):\n    return n != 0 and even(n - 1)\n"
    assert parts(load(text).even) == parts(load(text).even)


def test_code_without_source_counts_by_its_bytes() -> None:
    spaces: list[dict[str, Callable[[int], int]]] = [{}, {}, {}]
    for space, body in zip(spaces, ("x + 1", "x + 1", "x + 2"), strict=True):
        exec(f"def step(x): return {body}", space)
    one, two, other = (parts(space["step"]) for space in spaces)
    assert one == two != other


@pytest.mark.slow
def test_equal_in_every_process(load: Load, tmp_path: Path) -> None:
    file = load(BASE).__file__
    asked = f"""
        import runpy
        from rekindle.pipeline.identity.fingerprint import parts
        print(parts(runpy.run_path({file!r}, run_name="__main__")["step"]))
    """
    found = []
    for seed in ("1", "2"):
        environment = {**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": os.pathsep.join(sys.path)}
        command = [sys.executable, "-c", textwrap.dedent(asked)]
        found.append(subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout)
    assert found[0] == found[1]
    assert found[0].strip() == str(parts(load(BASE).step))


def test_a_helper_that_asks_for_its_task_is_seen(load: Load) -> None:
    text = """
        from pyspark import TaskContext
        def where():
            return TaskContext.get().partitionId()
        def step(df):
            return where()
        def lazy(df):
            from pyspark import BarrierTaskContext
            return BarrierTaskContext
        def plain(df):
            return df
        def group(members):
            def build(session):
                return [member(session) for member in members]
            return build
    """
    module = load(text)
    assert is_task_bound(module.step)
    assert is_task_bound(module.lazy)
    assert is_task_bound(module.group((module.plain, module.step)))
    assert not is_task_bound(module.plain)
