"""Lists in pages, each made in time slices, so that a long list delays no other caller."""

import json
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from typing import Generic, TypeVar

from google.protobuf.message import Message

from licorne_core.scheduling.preemption.ledger import PreemptionRecord
from licorne_core.values.errors import NotFound, shown
from licorne_core.values.ids import PartitionName
from licorne_core.views import Views
from licorne_core.views.nodes import ReservationReport
from licorne_core.views.queues import QueueReport
from licorne_server.process.fair import TimeSlices
from licorne_server.wire.errors import CallError, invalid_argument

PAGE_SIZE = 1_000
MAX_PAGE_SIZE = 10_000
MAX_DIGITS = 19
"""Digits of a number in a token, at most."""

MAX_PAGE_BYTES = 1024 * 1024
"""Bytes at which a page ends, however few rows it has: by default clients take 4 MiB."""

T = TypeVar("T")
M = TypeVar("M", bound=Message)
R = TypeVar("R")


class Page(Generic[T, M]):
    """A page of a list. Items that have no row, or are gone by then, are left out."""

    def __init__(self, items: Iterable[T | None], to_row: Callable[[T], M | None], *, size: int = 0) -> None:
        """A page of at most `size` rows, or PAGE_SIZE for 0; `fill` makes them.

        A None among the items is no item: it is where a slice may end.
        """
        self.rows: list[M] = []
        self._items = iter(items)
        self._to_row = to_row
        self._room = min(size or PAGE_SIZE, MAX_PAGE_SIZE)
        self._bytes = MAX_PAGE_BYTES
        self._last: T | None = None
        self._done = False

    def fill(self, over: Callable[[], bool]) -> bool:
        """Make rows until the slice is over, one at least; returns True if there are more."""
        while not self._done:
            self._next()
            if over():
                break
        return not self._done

    def _next(self) -> None:
        try:
            item = next(self._items)
        except StopIteration:
            self._last, self._done = None, True
            return
        if item is None:
            return
        if not self._room or self._bytes <= 0:
            self._done = True
            return
        self._last = item
        try:
            row = self._to_row(item)
        except NotFound:
            return
        if row is not None:
            self.rows.append(row)
            self._room -= 1
            self._bytes -= row.ByteSize()

    @property
    def last(self) -> T | None:
        """The item after which the next page begins; None if this is the last page."""
        return self._last


async def filled(page: Page[T, M], time_slices: TimeSlices, peer: str) -> Page[T, M]:
    """The same page, filled in slices of a peer."""
    more = True
    while more:
        async with time_slices.slice(peer) as over:
            more = page.fill(over)
    return page


async def gathered(
    items: Iterable[T], to_row: Callable[[T], R], time_slices: TimeSlices, peer: str
) -> list[R]:
    """A list without pages, made in slices of a peer; items gone by then are left out."""
    rest, rows, more = iter(items), list[R](), True
    while more:
        async with time_slices.slice(peer) as over:
            more = _gather(rest, to_row, rows, over)
    return rows


def _gather(rest: Iterator[T], to_row: Callable[[T], R], rows: list[R], over: Callable[[], bool]) -> bool:
    """Make rows until the slice is over; returns True if there may be more."""
    for item in rest:
        with suppress(NotFound):
            rows.append(to_row(item))
        if over():
            return True
    return False


def queues_after(views: Views, partition: PartitionName, path: str) -> Iterator[QueueReport | None]:
    """The queues that come after a path, or all for the empty one: parents first, then by name.

    There need not be a queue of that path any more. A queue is read when its turn comes. There is a
    None wherever the reader may pause.
    """
    behind = _names(path)
    levels: list[Iterator[str | None]] = [iter(["root"])]
    while levels:
        for here in levels[-1]:
            names = _names(here or "")
            whole_branch_before = names < behind and names != behind[: len(names)]
            if here is None or whole_branch_before:
                yield None
                continue
            try:
                report = views.queue(partition, here)
                levels.append(views.children(partition, here))
            except NotFound:
                continue
            yield report if names > behind else None
            break
        else:
            levels.pop()


def _names(path: str) -> tuple[str, ...]:
    return tuple(path.split(".")) if path else ()


def preemption_token(record: PreemptionRecord) -> str:
    """The token that names a record: its number."""
    return str(record.number)


def read_preemption_token(token: str) -> int | None:
    """The number of the record behind which the next page begins; None for the first page.

    That record may have gone meanwhile, and with it all that were older.

    Raises:
        CallError: the text is no token of this list.
    """
    if not token:
        return None
    if token.isascii() and token.isdigit() and len(token) < MAX_DIGITS:
        return int(token)
    raise _foreign(token)


_Place = tuple[str, float, str, str]
"""Sort key of a reservation: node, time, application, key of the ask."""


def reservations_after(
    views: Views, partition: PartitionName, token: str
) -> Iterator[ReservationReport | None]:
    """The reservations that come after the one that a token names, or all for the empty token.

    That reservation need not exist any more.

    Raises:
        CallError: the text is no token of this list.
    """
    if not token:
        return views.reservations(partition)
    behind = _read_token(token)
    found = views.reservations(partition, start=behind[0])
    return (report if report and _place(report) > behind else None for report in found)


def reservation_token(report: ReservationReport) -> str:
    """The token that names a reservation."""
    return json.dumps(_place(report))


def _place(report: ReservationReport) -> _Place:
    return (report.node_id, report.time, report.app_id, report.key)


def _read_token(token: str) -> _Place:
    try:
        match json.loads(token):
            case [str(node_id), float(time), str(app_id), str(key)]:
                return (node_id, time, app_id, key)
    except (ValueError, RecursionError):
        pass
    raise _foreign(token)


def _foreign(token: str) -> CallError:
    return invalid_argument(f"page_token {shown(token)} is not from this list", "page_token")
