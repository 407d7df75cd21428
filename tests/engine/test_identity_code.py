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

from rekindle.engine.changes import describe_change
from rekindle.engine.code import parts

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
