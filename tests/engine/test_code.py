"""What counts as a change of a user's code, row by row."""

from __future__ import annotations

import importlib.util
import itertools
import textwrap
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

from rekindle.engine.code import fingerprint, is_task_bound

NUMBERS = itertools.count()
BASE = """
    LIMIT = 3
    def helper(x):
        return x + 1
    def step(df):
        return helper(df) * LIMIT
"""

Load = Callable[[str], ModuleType]


@pytest.fixture
def load(tmp_path: Path) -> Load:
    def made(text: str) -> ModuleType:
        path = tmp_path / f"user_{next(NUMBERS)}.py"
        path.write_text(textwrap.dedent(text))
        spec = importlib.util.spec_from_file_location(path.stem, path)
        assert spec is not None and spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module

    return made


@pytest.mark.parametrize(
    ("edit", "is_change"),
    [
        pytest.param(("return helper", "return  helper"), False, id="white space is no change"),
        pytest.param(("def step(df):", "def step(df):  # better"), False, id="a comment is no change"),
        pytest.param(("LIMIT = 3", "UNUSED = 1\n    LIMIT = 3"), False, id="a name it does not use is no change"),
        pytest.param(("* LIMIT", "+ LIMIT"), True, id="its own body changed"),
        pytest.param(("x + 1", "x + 2"), True, id="a helper changed"),
        pytest.param(("LIMIT = 3", "LIMIT = 4"), True, id="a constant it names changed"),
        pytest.param(("LIMIT = 3", "LIMIT = [3]"), True, id="a constant of another type"),
    ],
)
def test_what_is_a_change(load: Load, edit: tuple[str, str], is_change: bool) -> None:
    assert edit[0] in BASE
    before, after = load(BASE).step, load(BASE.replace(*edit)).step
    assert (fingerprint(before) != fingerprint(after)) is is_change


def test_a_closure_counts(load: Load) -> None:
    text = """
        def made(factor):
            def step(df):
                return df * factor
            return step
    """
    module = load(text)
    assert fingerprint(module.made(2)) == fingerprint(module.made(2))
    assert fingerprint(module.made(2)) != fingerprint(module.made(3))


def test_what_a_decorator_holds_counts(load: Load) -> None:
    text = """
        class Wrapper:
            def __init__(self, func):
                self.func = func
        def inner(x):
            return x
        held = Wrapper(inner)
        def step(df):
            return held
    """
    changed = text.replace("return x\n", "return -x\n")
    assert fingerprint(load(text).step) != fingerprint(load(changed).step)


def test_functions_that_call_each_other_end(load: Load) -> None:
    text = """
        def even(n):
            return n == 0 or odd(n - 1)
        def odd(n):
            return n != 0 and even(n - 1)
    """
    assert fingerprint(load(text).even) == fingerprint(load(text).even)


def test_code_without_source_counts_by_its_bytes() -> None:
    spaces: list[dict[str, Callable[[int], int]]] = [{}, {}, {}]
    for space, body in zip(spaces, ("x + 1", "x + 1", "x + 2"), strict=True):
        exec(f"def step(x): return {body}", space)
    one, two, other = (fingerprint(space["step"]) for space in spaces)
    assert one == two != other


def test_a_helper_that_asks_for_its_task_is_seen(load: Load) -> None:
    text = """
        from pyspark import TaskContext
        def where():
            return TaskContext.get().partitionId()
        def step(df):
            return where()
        def plain(df):
            return df
    """
    module = load(text)
    assert is_task_bound(module.step)
    assert not is_task_bound(module.plain)
