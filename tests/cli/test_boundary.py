"""Every error reaches the user as its code, its message and what to type; nothing reaches them as a traceback."""

from __future__ import annotations

import importlib
import inspect
from pathlib import Path

import click
import pytest

from cli.calling import call
from rekindle import errors
from rekindle.cli.boundary import ExitCode, exit_code, guarded
from rekindle.cli.main import group
from rekindle.cli.next_command import lines_of
from rekindle.cli.registry import COMMANDS

CLASSES = sorted(
    (one for _, one in inspect.getmembers(errors, inspect.isclass) if issubclass(one, errors.RekindleError)),
    key=lambda one: one.code,
)


def raising(error: BaseException) -> click.Command:
    @click.command
    def fails() -> None:
        raise error

    return fails


@pytest.mark.parametrize("kind", CLASSES, ids=lambda kind: kind.code)
def test_an_error_is_its_code_its_message_and_what_to_type(
    kind: type[errors.RekindleError], capsys: pytest.CaptureFixture[str]
) -> None:
    code = guarded(raising(kind("what happened", "type this")), [])
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err == f"error {kind.code}: what happened\nnext: type this\n"
    assert code in (ExitCode.FAILED, ExitCode.REFUSED, ExitCode.RESUMABLE)


@pytest.mark.parametrize("kind", CLASSES, ids=lambda kind: kind.code)
def test_an_error_without_a_hint_has_the_advice_of_its_class(
    kind: type[errors.RekindleError], capsys: pytest.CaptureFixture[str]
) -> None:
    guarded(raising(kind("what happened")), [])
    lines = "\n      ".join(lines_of(kind.advice))
    assert capsys.readouterr().err == f"error {kind.code}: what happened\nnext: {lines}\n"


def test_codes_are_unique_and_each_class_has_its_own_advice() -> None:
    assert len({kind.code for kind in CLASSES}) == len({kind.advice for kind in CLASSES}) == len(CLASSES)


def test_exit_codes() -> None:
    assert exit_code(errors.RunFailed("")) is ExitCode.RESUMABLE
    assert exit_code(errors.RunFailed("", is_resumable=False)) is ExitCode.FAILED
    assert exit_code(errors.StillOwned("")) is exit_code(errors.Fenced("")) is ExitCode.REFUSED
    assert exit_code(errors.StoreFailed("")) is exit_code(errors.AppendUnknown("")) is ExitCode.RESUMABLE
    assert exit_code(errors.StoreDenied("")) is ExitCode.REFUSED, "a retry cannot help"
    assert exit_code(errors.RekindleError("")) is ExitCode.FAILED


def test_what_nobody_expected_is_one_line_and_a_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("REKINDLE_TRACE_FOLDER", str(tmp_path / "traces"))
    assert guarded(raising(KeyError("first\nsecond")), []) == ExitCode.FAILED
    (trace,) = (tmp_path / "traces").iterdir()
    assert capsys.readouterr().err == f"error: KeyError: 'first\\nsecond'\nfull trace: {trace}\n"
    assert "Traceback" in trace.read_text() and "KeyError" in trace.read_text()


@pytest.mark.parametrize("error", [KeyboardInterrupt(), click.Abort()])
def test_an_interrupt_is_told_apart(error: BaseException, capsys: pytest.CaptureFixture[str]) -> None:
    assert guarded(raising(error), []) == ExitCode.INTERRUPTED
    assert capsys.readouterr().err.strip().endswith("interrupted")


def test_what_a_command_returns_is_the_exit_code(capsys: pytest.CaptureFixture[str]) -> None:
    @click.command
    def works() -> int:
        return ExitCode.WORK

    assert guarded(works, []) == 2
    assert guarded(works, ["--help"]) == 0
    assert capsys.readouterr().out.startswith("Usage: rekindle")


@pytest.mark.parametrize("arguments", [["nonsense"], ["runs", "--nonsense"], ["explain"]], ids=" ".join)
def test_a_usage_error_is_a_refusal_and_never_2(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    said = call(capsys, *arguments)
    assert said.code == ExitCode.REFUSED
    assert "Usage: rekindle" in said.err and "Traceback" not in said.err


@pytest.mark.parametrize("name", COMMANDS)
def test_the_registry_says_what_the_command_says(name: str) -> None:
    command = importlib.import_module(COMMANDS[name].module).command
    assert isinstance(command, click.Command) and command.name == name
    first = inspect.cleandoc(command.help or "").split("\n\n")[0]
    assert " ".join(first.split()) == COMMANDS[name].line


def test_help_lists_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    said = call(capsys, "--help")
    assert said.code == 0
    assert all(name in said.out for name in COMMANDS)
    assert list(group.list_commands(click.Context(group))) == list(COMMANDS)
