"""A run as it goes on, on the terminal: one line per step that changes in place, and news above them. Where there is no
terminal, plain lines: the news, each step that is complete, and now and then how far it is."""

from __future__ import annotations

import time
from types import TracebackType

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.markup import escape
from rich.progress_bar import ProgressBar
from rich.table import Table

from rekindle.cli.text import printable, wrapped
from rekindle.master.facts.events import Event
from rekindle.master.state.run_state import RunState
from rekindle.observe.progress import Progress, left_text, notes_text
from rekindle.service.run_report import ProgressReport

REFRESHES_PER_SECOND = 4
BAR_COLUMNS_MAX = 24
BAR_SHARE = 5


class Display:
    """Watches a run and draws it. Use it as a context manager; it is the run's watcher."""

    def __init__(self, console: Console) -> None:
        self.progress = Progress()
        self.state: RunState | None = None
        self._console = console
        self._live: Live | None = None
        self._plain = ProgressReport(self.progress, self._say)

    def __enter__(self) -> Display:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if self._live is not None:
            self._live.stop()
            self._live = None

    def __call__(self, events: tuple[Event, ...], state: RunState) -> None:
        self.state = state
        news = self.progress.take(events, state)
        if self._console.is_terminal and self._live is None:
            self._live = Live(
                console=self._console,
                get_renderable=self._drawn,
                refresh_per_second=REFRESHES_PER_SECOND,
                redirect_stdout=False,
                redirect_stderr=False,
            )
            self._live.start()
        for line in news:
            self._say(line)
        if self._live is None:
            self._plain.tell()

    @property
    def number(self) -> str:
        """The number of the run, once something is known of it."""
        return str(self.state.order) if self.state is not None else ""

    def _say(self, line: str) -> None:
        clock = time.strftime("%H:%M:%S ")
        wide = self._console.width - len(clock) if self._console.is_terminal else None
        first, *rest = wrapped(line, wide)
        lines = [f"[dim]{clock}[/dim]{escape(first)}", *(" " * len(clock) + escape(part) for part in rest)]
        self._console.print("\n".join(lines), soft_wrap=True)

    def _drawn(self) -> RenderableType:
        columns = min(BAR_COLUMNS_MAX, self._console.width // BAR_SHARE)
        table = Table(box=None, show_header=False, pad_edge=False, padding=(0, 1, 0, 1))
        table.add_column(no_wrap=True)
        table.add_column(width=columns)
        table.add_column(no_wrap=True, justify="right")
        table.add_column()
        for row in self.progress.rows():
            bar = ProgressBar(total=row.total, completed=row.done, width=columns)
            table.add_row(escape(printable(row.step)), bar, f"{row.done}/{row.total}", escape(notes_text(row)))
        return Group(table, left_text(self.progress).removeprefix(", "))
