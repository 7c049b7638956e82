"""Paths of the web page, and pages of its lists, each made in slices from a bounded number of items."""

from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from time import thread_time
from typing import TypeVar

from aiohttp import web

from licorne_core.values.errors import shown
from licorne_server.http.stream import JsonObject, reader_of, send_json
from licorne_server.process.fair import TimeSlices, walked
from licorne_server.reads.paging import Page, filled
from licorne_server.reads.sources import SOURCES

PAGE = 100
MAX_PAGE = 500
"""Default number of rows of a page, and the maximum of `limit`."""

MAX_LOOKED_AT = 20_000
"""Maximum number of items that are read for one page."""

MAX_OFFSET = 10_000_000
MAX_TEXT = 256
"""Maximum number of characters of a search text."""

REFRESH_SECONDS = 2.0
REFRESH_BUDGET = 400.0
"""Minimum pause before the same request is repeated, in units of the CPU time of its answer."""

T = TypeVar("T")


class Maker:
    """Makes one answer in slices, and measures its cost."""

    def __init__(self, time_slices: TimeSlices, peer: str) -> None:
        """Work in time slices of `peer`."""
        self._time_slices = time_slices
        self._peer = peer
        self.spent = 0.0
        """CPU seconds so far."""

    @classmethod
    def of(cls, request: web.Request) -> "Maker":
        """A maker for a request, with time slices that are charged to the caller."""
        return cls(request.app[SOURCES].time_slices, reader_of(request))

    async def once(self, work: Callable[[], T]) -> T:
        """Run work in one time slice."""
        async with self.slices():
            return work()

    async def all(self, steps: Iterable[T | None]) -> list[T]:
        """Run all steps in time slices; returns their results that are not None."""
        return await walked(steps, self.slices)

    async def page(
        self, request: web.Request, items: Iterable[T | None], to_row: Callable[[T], JsonObject | None]
    ) -> Page[T, JsonObject]:
        """A page of a list: as many rows as the request's `limit`, from at most MAX_LOOKED_AT items."""
        page = Page(items, to_row, size=limit_of(request), budget=MAX_LOOKED_AT, cost=lambda _: 1)
        return await filled(page, self.slices)

    @asynccontextmanager
    async def slices(self) -> AsyncIterator[Callable[[], bool]]:
        """A time slice whose CPU time is measured."""
        async with self._time_slices.slice(self._peer) as over:
            begin = thread_time()
            try:
                yield over
            finally:
                self.spent += thread_time() - begin

    @property
    def refresh(self) -> int:
        """Milliseconds after which a viewer may repeat the request."""
        return round(1000 * max(REFRESH_SECONDS, self.spent * REFRESH_BUDGET))

    async def send(self, request: web.Request, shown: JsonObject) -> web.StreamResponse:
        """Answer with an object, and with `refresh`."""
        return await send_json(request, {**shown, "refresh": self.refresh})


def number(request: web.Request, name: str, default: int) -> int:
    """A whole number of the query, or the default.

    Raises:
        HTTPBadRequest: the text is no whole number in range.
    """
    text = request.query.get(name, "")
    if not text:
        return default
    if not (text.isascii() and text.isdecimal() and len(text) <= 20):
        raise web.HTTPBadRequest(text=f"{name}: {shown(text)} is not a whole number")
    return int(text)


def limit_of(request: web.Request) -> int:
    """Rows of a page: `limit`, or PAGE without it.

    Raises:
        HTTPBadRequest: the value is no number.
    """
    return max(1, min(MAX_PAGE, number(request, "limit", PAGE)))


def wanted(request: web.Request, name: str = "q") -> str:
    """The search text, in lower case; empty for everything.

    Raises:
        HTTPBadRequest: the text is too long.
    """
    return text_in(request, name).lower()


def text_in(request: web.Request, name: str) -> str:
    """A text of the query, without surrounding blanks; empty if missing.

    Raises:
        HTTPBadRequest: the text is too long.
    """
    text = request.query.get(name, "").strip()
    if len(text) > MAX_TEXT:
        raise web.HTTPBadRequest(text=f"{name}: {len(text)} characters, {MAX_TEXT} are allowed")
    return text


def one_of(request: web.Request, name: str, choices: tuple[str, ...]) -> str:
    """Value of the query, which must be one of `choices`; the first if it is missing.

    Raises:
        HTTPBadRequest: the value is none of them.
    """
    text = request.query.get(name, "") or choices[0]
    if text not in choices:
        raise web.HTTPBadRequest(text=f"{name}: {shown(text)} is none of {', '.join(choices)}")
    return text


API = "/ui/api"

ACT = f"{API}/act"
"""Path of operators' acts."""

FILTERED = frozenset({f"{API}/feed", f"{API}/search", f"{API}/reasons"})
"""Paths that show only data that the caller may see."""

OF_ONE_RM = frozenset({f"{API}/config", f"{API}/config/revision", f"{API}/config/revisions", f"{API}/events"})
"""Paths that show only the RM in `rm`."""
