"""The one place where errors become text and an exit code. No traceback reaches a user.

- Every error of ours is two things: `error RKnnn: what happened` and `next: what to type`, a line for each remedy. On a
  terminal the first is wrapped at spaces; a line with a command never is, so that it can be copied.
- Anything else is a fault of ours or of the user's code: one line, and the full trace in a file whose path is printed.
- Exit codes are for schedulers and never change their meaning: 4 alone says that the same command, typed again, can
  help without anybody's doing. A usage error is a refusal: 2 means that `plan` found work.
"""

from __future__ import annotations

import io
import shutil
import sys
import tempfile
import traceback
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from enum import IntEnum
from pathlib import Path
from typing import TextIO

import click

from rekindle.cli import hidden
from rekindle.cli.next_command import lines_of, unset
from rekindle.cli.text import folded, printable, say, styled
from rekindle.cli.typed import begin
from rekindle.config import is_plain, load_config
from rekindle.errors import (
    AppendRejected,
    AppendUnknown,
    ConfigRefused,
    Fenced,
    Notice,
    Refused,
    RekindleError,
    RunFailed,
    StoreDenied,
    StoreFailed,
)
from rekindle.remedies import Remedy

NEXT = "next"


class ExitCode(IntEnum):
    """What a scheduler may rely on."""

    DONE = 0
    FAILED = 1
    WORK = 2
    REFUSED = 3
    RESUMABLE = 4
    STALE = 5
    INTERRUPTED = 130


class Interrupted(KeyboardInterrupt):
    """Somebody typed Ctrl-C, and something is to be said about what is kept."""

    def __init__(self, kept: str, *remedies: Remedy) -> None:
        super().__init__(kept)
        self.kept, self.remedies = kept, remedies


def guarded(command: click.Command, arguments: Sequence[str]) -> int:
    """Run a command; the exit code. A command returns one, or None for done."""
    hidden.forget()
    try:
        begin(command, arguments)
        color = False if is_plain() else None
        with _notices_as_lines():
            found = command.main(list(arguments), prog_name="rekindle", standalone_mode=False, color=color)
        sys.stdout.flush()
        return found if isinstance(found, int) else ExitCode.DONE
    except RekindleError as error:
        tell(error)
        return exit_code(error)
    except click.ClickException as error:
        shown = io.StringIO()
        error.show(shown)
        say([shown.getvalue().rstrip("\n")], err=True)
        return ExitCode.REFUSED
    except (click.Abort, KeyboardInterrupt) as error:
        if isinstance(error.__cause__, Interrupted):  # Click raises an error of its own from it.
            _say("interrupted", error.__cause__.kept)
            _say(NEXT, "\n".join(lines_of(error.__cause__.remedies)), "cyan")
        else:
            say(["interrupted"], err=True)
        return ExitCode.INTERRUPTED
    except BrokenPipeError:
        sys.stderr.close()
        return ExitCode.DONE
    except Exception as error:
        _say("error", f"{type(error).__name__}: {_first_line(error)}", "red")
        _say("full trace", write_trace("".join(traceback.format_exception(error))))
        return ExitCode.FAILED


@contextmanager
def _notices_as_lines() -> Iterator[None]:
    """What Rekindle warns of is a line on stderr; what others warn of looks as Python prints it."""
    with warnings.catch_warnings():
        usual = warnings.showwarning

        def show(
            message: Warning | str,
            category: type[Warning],
            filename: str,
            lineno: int,
            file: TextIO | None = None,
            line: str | None = None,
        ) -> None:
            if issubclass(category, Notice):
                _say("warning", str(message), "yellow")
            else:
                usual(message, category, filename, lineno, file, line)

        warnings.showwarning = show
        yield


def tell(error: RekindleError) -> None:
    """Print an error of ours, to stderr."""
    width = shutil.get_terminal_size().columns if sys.stderr.isatty() else None
    _say(f"error {error.code}", error.message, "red", width)
    if missing := unset(error.remedies):
        _say("set first", f"{', '.join(missing)}, which the next command names: Rekindle does not print secrets")
    indent = "\n" + " " * len(f"{NEXT}: ")
    _say(NEXT, indent.join(lines_of(error.remedies)), "cyan")


def exit_code(error: RekindleError) -> ExitCode:
    match error:
        case RunFailed():
            return ExitCode.RESUMABLE if error.is_resumable else ExitCode.FAILED
        case Refused() | Fenced() | StoreDenied():
            return ExitCode.REFUSED
        case AppendRejected() | AppendUnknown() | StoreFailed():
            return ExitCode.RESUMABLE
        case _:
            return ExitCode.FAILED


def _say(word: str, text: str, color: str | None = None, width: int | None = None) -> None:
    head = f"{word}:"
    lines = f"{head} {printable(text)}".split("\n")
    shown = "\n".join(part for line in lines for part in folded(line, width))
    head_styled = styled(head, color, bold=True)
    say([head_styled + shown.removeprefix(head)], err=True, color=False if is_plain() else None)


def _first_line(error: Exception) -> str:
    return next(iter(str(error).splitlines()), "")


def write_trace(text: str) -> str:
    """All that is known of an error, in a file; its path."""
    try:
        folder = load_config().trace_folder or None
        if folder:
            Path(folder).mkdir(parents=True, exist_ok=True)
    except (ConfigRefused, OSError):
        folder = None
    with tempfile.NamedTemporaryFile(
        "w", prefix="rekindle-trace-", suffix=".txt", dir=folder, delete=False, encoding="utf-8"
    ) as file:
        file.write(hidden.without_secrets(text))
    return file.name
