"""Tables and lines for a terminal of any width, and for none.

- A table that fits is a table. One that does not becomes one block per row, wrapped: nothing is ever cut off.
- Without a terminal there is no width and no colour: lines are as long as they are.
- Everything that is printed goes through `printable` or `say_json`: text of others has no control characters on a
  terminal, and secrets are hidden. The only escapes that `say` writes are the colours of `styled`.
"""

from __future__ import annotations

import secrets
import shutil
import sys
import textwrap
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import click

from rekindle.cli.hidden import json_without_secrets, without_secrets
from rekindle.config import columns
from rekindle.errors import visible

GAP = "  "
INDENT = "  "
COMMAND = ": rekindle "
PHASE_COLORS = {
    "succeeded": "green",
    "finished": "green",
    "stopped": "green",
    "stopping": "cyan",
    "running": "cyan",
    "failed": "red",
    "failing": "red",
    "damaged": "red",
    "newer": "red",
    "gave up": "red",
    "stuck": "red",
    "backoff": "yellow",
    "interrupted": "yellow",
    "closed": "bright_black",
    "never began": "bright_black",
}


# Stands for the escape character in what `styled` makes, until it is printed. Nobody else can write it.
MARK = f"\0{secrets.token_hex(8)}"


class Column(NamedTuple):
    """A column of a table."""

    title: str
    is_right: bool = False


class Cell(NamedTuple):
    """Text with a colour. Plain text may stand for one."""

    text: str
    color: str | None = None


Cells = Sequence[Cell | str]


def width() -> int | None:
    """The columns of the terminal; None where there is none."""
    asked = columns()
    if asked is not None:
        return asked
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else None


def printable(text: str) -> str:
    """Text of others as it may stand on a terminal."""
    return visible(without_secrets(text))


def styled(text: str, color: str | None = None, *, bold: bool | None = None) -> str:
    """Text of others in a colour or in bold."""
    return click.style(printable(text), fg=color, bold=bold).replace("\x1b", MARK)


def say(lines: Iterable[str] = ("",), *, err: bool = False, color: bool | None = None) -> None:
    """Print lines as one write."""
    pieces = "\n".join(lines).split(MARK)
    click.echo("\x1b".join(map(printable, pieces)), err=err, color=color)


def say_json(made: str | bytes) -> None:
    """Print JSON, which stays JSON whatever is hidden in it."""
    click.echo(visible(json_without_secrets(made)))


def say_line(made: str) -> None:
    """Print JSON in one line, at once."""
    click.echo(visible(json_without_secrets(made, indent=None)))


def table(head: Sequence[Column], rows: Sequence[Cells], width: int | None) -> Iterator[str]:
    """The lines of a table, or of blocks if it would be wider than the terminal."""
    made = [[_one_line(cell if isinstance(cell, Cell) else Cell(cell)) for cell in row] for row in rows]
    widths = [max(len(column.title), *(len(row[at].text) for row in made)) for at, column in enumerate(head)]
    if width is not None and sum(widths) + len(GAP) * (len(widths) - 1) > width:
        yield from _blocks(head, made, width)
        return
    yield styled(_line(head, [Cell(column.title) for column in head], widths), bold=True)
    for row in made:
        yield _line(head, row, widths)


def wrapped(text: str, width: int | None, indent: str = "", first: str | None = None) -> Iterator[str]:
    """A sentence, wrapped at spaces; words that are too long stay whole, so that they can be copied."""
    text, first = printable(text), indent if first is None else first
    if width is None:
        yield first + text
        return
    yield from textwrap.wrap(
        text,
        max(width, 20),
        initial_indent=first,
        subsequent_indent=indent,
        break_long_words=False,
        break_on_hyphens=False,
    ) or [first]


def folded(line: str, width: int | None) -> Iterator[str]:
    """The same for a line that is indented: what is wrapped stands two further to the right. A line with a command is
    never wrapped, so that it can be copied."""
    text, width = line.lstrip(), None if COMMAND in line else width
    indent = line[: len(line) - len(text)]
    return wrapped(text, width, indent + INDENT, first=indent)


def colored_phase(phase: str) -> Cell:
    return Cell(phase, PHASE_COLORS.get(phase))


def _one_line(cell: Cell) -> Cell:
    """A row of a table is one line, whatever stands in its cells."""
    return Cell(printable(cell.text).replace("\n", "\\n"), cell.color)


def _line(head: Sequence[Column], row: Sequence[Cell], widths: Sequence[int]) -> str:
    pieces = []
    for column, cell, wide in zip(head, row, widths, strict=True):
        space = " " * (wide - len(cell.text))
        text = styled(cell.text, cell.color) if cell.color else cell.text
        pieces.append(space + text if column.is_right else text + space)
    return GAP.join(pieces).rstrip()


def _blocks(head: Sequence[Column], rows: Sequence[Sequence[Cell]], width: int) -> Iterator[str]:
    for row in rows:
        first, *rest = row
        yield styled(first.text, bold=True)
        told = [f"{column.title.lower()} {cell.text}" for column, cell in zip(head[1:], rest, strict=True) if cell.text]
        yield from wrapped(" · ".join(told), width, INDENT)
