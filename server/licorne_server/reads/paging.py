"""Lists in pages, each made in time slices, so that a long list delays no other caller."""

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from typing import Any, Generic, TypeVar

from google.protobuf.message import Message

from licorne_core.values.errors import NotFound, shown
from licorne_core.values.ids import PartitionName
from licorne_core.views import Views
from licorne_core.views.nodes import ReservationReport
from licorne_core.views.queues import QueueReport
from licorne_server.process.fair import Slices, walked
from licorne_server.wire.errors import CallError, invalid_argument

PAGE_SIZE = 1_000
MAX_PAGE_SIZE = 10_000
MAX_DIGITS = 19
"""Maximum number of digits of a number in a token."""

MAX_PAGE_BYTES = 1024 * 1024
"""Number of bytes at which a page ends, however few rows it has: by default clients accept 4 MiB."""

T = TypeVar("T")
R = TypeVar("R")


def cost_in_bytes(row: Message | None) -> int:
    """Number of bytes of a message; an item without a row costs nothing."""
    return 0 if row is None else row.ByteSize()


class Page(Generic[T, R]):
    """A page of a list. Items without a row, or removed meanwhile, are left out."""

    def __init__(
        self,
        items: Iterable[T | None],
        to_row: Callable[[T], R | None],
        *,
        size: int = 0,
        budget: int = 0,
        cost: Callable[[Any], int] = cost_in_bytes,
    ) -> None:
        """A page of at most `size` rows, or PAGE_SIZE for 0; `filled` makes the rows.

        The page also ends once the `cost` of its rows reaches the budget, where 0 stands for MAX_PAGE_BYTES.
        A time slice may end at a None in place of an item.
        """
        self.rows: list[R] = []
        self.last: T | None = None
        """The item after which the next page begins; None if this is the last page."""
        self.spent = 0
        """Cost of all items so far."""
        self._items = items
        self._to_row = to_row
        self._room = min(size or PAGE_SIZE, MAX_PAGE_SIZE)
        self._budget = budget or MAX_PAGE_BYTES
        self._cost = cost

    def steps(self) -> Iterator[None]:
        """Make the rows; the reader may pause at every step."""
        for item in self._items:
            if item is not None:
                if not self._room or self.spent >= self._budget:
                    return
                self.last = item
                self._add(item)
            yield
        self.last = None

    def _add(self, item: T) -> None:
        row = None
        with suppress(NotFound):
            row = self._to_row(item)
        if row is not None:
            self.rows.append(row)
            self._room -= 1
        self.spent += self._cost(row)


async def filled(page: Page[T, R], slices: Slices) -> Page[T, R]:
    """Fill a page in time slices, and return it."""
    await walked(page.steps(), slices)
    return page


def queues_after(views: Views, partition: PartitionName, path: str) -> Iterator[QueueReport | None]:
    """The queues after a path, or all queues for the empty path: parents first, then by name.

    The queue of that path may have been removed. Each queue is read when it is reached. None marks a possible
    pause of the reader.
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


def read_preemption_token(token: str) -> int | None:
    """The number of the record after which the page begins; None for the first page.

    That record and all older ones may have been dropped meanwhile.

    Raises:
        CallError: the text is no token of this list.
    """
    if not token:
        return None
    if token.isascii() and token.isdigit() and len(token) < MAX_DIGITS:
        return int(token)
    raise foreign(token)


_Place = tuple[str, float, str, str]
"""Sort key of a reservation: node, time, application, and key of the ask."""


def reservations_after(
    views: Views, partition: PartitionName, token: str
) -> Iterator[ReservationReport | None]:
    """The reservations after the one that a token names, or all reservations for an empty token.

    That reservation may have ended.

    Raises:
        CallError: the text is no token of this list.
    """
    if not token:
        return views.reservations(partition)
    behind = read_place(token, str, float, str, str)
    found = views.reservations(partition, start=behind[0])
    return (report if report and place_of_reservation(report) > behind else None for report in found)


def place_of_reservation(report: ReservationReport) -> _Place:
    """The sort key of a reservation."""
    return (report.node_id, report.time, report.app_id, report.key)


def place_token(last: Any, place: Callable[[Any], Sequence[object]] = tuple) -> str:
    """The token that names the last row of a page by its sort key; empty for None."""
    return "" if last is None else json.dumps(place(last))


def read_place(token: str, *types: type) -> tuple[Any, ...]:
    """The sort key in a token, a JSON list of values of these types.

    Raises:
        CallError: the text is no token of this list.
    """
    with suppress(ValueError, RecursionError):
        place = json.loads(token)
        if isinstance(place, list) and [*map(type, place)] == [*types]:
            return tuple(place)
    raise foreign(token)


def foreign(token: str) -> CallError:
    """The refusal of a token of another list."""
    return invalid_argument(f"page_token {shown(token)} is not from this list", "page_token")
