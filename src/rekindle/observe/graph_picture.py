"""A graph that commands print and notebooks draw: the same picture as text, as a drawing and as a page."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator

from rekindle.observe.picture import Picture
from rekindle.observe.picture_page import drawing_page
from rekindle.observe.picture_svg import svg, text


class GraphPicture:
    """`pipeline` has it, and `failure` is what was asked about, if anything."""

    __slots__ = ()
    pipeline: str
    failure: str

    @abstractmethod
    def picture(self) -> Picture: ...

    @abstractmethod
    def _answer(self) -> Iterator[str]:
        """What would run again, if that was asked."""
        ...

    def lines(self) -> Iterator[str]:
        """As text."""
        yield from text(self.picture())
        yield from self._answer()

    def svg(self) -> str:
        return svg(self.picture())

    def html(self) -> str:
        title = f"graph of {self.pipeline}" + (f", if {self.failure} fails" if self.failure else "")
        return drawing_page(title, self.picture(), list(self._answer()))

    def __str__(self) -> str:
        return "\n".join(self.lines())

    def _repr_html_(self) -> str:
        return f'<div style="overflow: auto">{self.svg()}</div>'
