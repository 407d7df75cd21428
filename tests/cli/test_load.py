"""Pipelines from files and modules; what cannot be found is named with what there is."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import rekindle
from rekindle.api import Pipeline
from rekindle.cli.load import load
from rekindle.errors import GraphRefused, NotFound, RekindleError

ONE = 'import rekindle as rk\npipeline = rk.Pipeline("daily")\nsame = pipeline\n'


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.chdir(tmp_path)
    modules, path = set(sys.modules), list(sys.path)
    yield tmp_path
    sys.path[:] = path
    for name in set(sys.modules) - modules:
        del sys.modules[name]


def test_a_file_with_one_pipeline(folder: Path) -> None:
    (folder / "daily_flow.py").write_text(ONE + 'if __name__ == "__main__":\n    raise SystemExit("was run")\n')
    loaded = load("daily_flow.py")
    assert loaded.pipeline.name == "daily" and loaded.is_file
    assert loaded.module.__name__ == "daily_flow"
    assert load("daily_flow.py").pipeline is loaded.pipeline


def test_a_file_may_import_what_stands_beside_it(folder: Path) -> None:
    (folder / "sub").mkdir()
    (folder / "sub" / "helper_of_it.py").write_text('NAME = "weekly"\n')
    (folder / "sub" / "weekly_flow.py").write_text(
        "from __future__ import annotations\nfrom dataclasses import dataclass\nimport helper_of_it\n"
        "import rekindle as rk\n@dataclass\nclass Options:\n    day: str\npipeline = rk.Pipeline(helper_of_it.NAME)\n"
    )
    assert load("sub/weekly_flow.py").pipeline.name == "weekly"


def test_a_module_with_one_pipeline_needs_no_attribute(folder: Path) -> None:
    (folder / "only_flow.py").write_text(ONE)
    assert load("only_flow").pipeline.name == "daily"


def test_a_module_and_one_of_several(folder: Path) -> None:
    (folder / "my_flows.py").write_text('import rekindle as rk\na = rk.Pipeline("first")\nb = rk.Pipeline("second")\n')
    assert load("my_flows:b").pipeline.name == "second"
    assert not load("my_flows:b").is_file
    assert load("my_flows.py:a").pipeline.name == "first"
    assert isinstance(load("my_flows:a").pipeline, Pipeline)


@pytest.mark.parametrize(
    ("text", "given", "kind", "message", "hint"),
    [
        (ONE, "some_flw.py", NotFound, "there is no file some_flw.py", "did you mean some_flow.py?"),
        (ONE, "elsewhere:pipeline", NotFound, "there is no module elsewhere", "give a file (daily.py)"),
        ("x = 1\n", "some_flow.py", NotFound, "there is no pipeline in some_flow.py", "rk.Pipeline("),
        (ONE + 'b = rk.Pipeline("b")\n', "some_flow.py", NotFound, "several pipelines: same, b", "some_flow.py:same"),
        (ONE, "some_flow.py:pipelin", NotFound, "has no pipeline pipelin", "did you mean pipeline?"),
        ("x = 1\n", "some_flow.py:a", NotFound, "has no pipeline a", "there is none in it"),
        (
            "x = 1\ny = x / 0\n",
            "some_flow.py",
            GraphRefused,
            "some_flow.py:2: ZeroDivisionError",
            "python some_flow.py",
        ),
        ("x = (\n", "some_flow.py", GraphRefused, "some_flow.py:1: SyntaxError", "python some_flow.py"),
        ("import no_such_thing\n", "some_flow.py", GraphRefused, "ModuleNotFoundError", "python some_flow.py"),
        ("import no_such_thing\n", "some_flow:a", GraphRefused, "No module named 'no_such_thing'", "install it"),
        ("x = 1 / 0\n", "some_flow:a", GraphRefused, "some_flow: ZeroDivisionError", "import some_flow"),
        ("import rekindle as rk\nrk.Pipeline('no name')\n", "some_flow.py", GraphRefused, "is not a valid name", ""),
        (ONE, "json.py", GraphRefused, "json.py has the same name as the Python module json", "my_json.py"),
    ],
)
def test_what_cannot_be_loaded_is_refused(
    folder: Path, text: str, given: str, kind: type[RekindleError], message: str, hint: str
) -> None:
    (folder / "some_flow.py").write_text(text)
    (folder / "json.py").write_text(text)
    with pytest.raises(kind) as refused:
        load(given)
    assert message in refused.value.message
    assert hint in refused.value.hint


def test_a_type_as_text_needs_spark_and_the_hint_says_how_to_do_without(folder: Path) -> None:
    """In a process of its own: here some other test may have a session. A command that needs Spark starts one, and
    reads the file then."""
    (folder / "typed_flow.py").write_text(
        f'{ONE}from pyspark.sql.functions import udf\n\n@udf("int")\ndef price(order):\n    return 1\n'
    )
    code = (
        "from rekindle.cli.load import load\n"
        "from rekindle.errors import GraphRefused\n"
        "try:\n    load('typed_flow.py')\n"
        "except GraphRefused as error:\n    print(error.message, error.hint, sep='\\n')\n"
    )
    paths = {**os.environ, "PYTHONPATH": str(Path(rekindle.__file__).parent.parent)}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=paths)
    message, hint = done.stdout.splitlines()
    assert message.startswith("typed_flow.py:6: PySparkRuntimeError: [SESSION_OR_CONTEXT_NOT_EXISTS]"), done
    assert (
        hint == "this line needs Spark: give the type as an object, @udf(IntegerType()), or declare it inside the step"
    )
