"""Pages of the web page's lists: in their default order, or in an order that the viewer chooses.

For a chosen order all rows are made in one bounded pass, and only those of a page are retained. So the time
for a page grows with the list, but the memory does not. Rows with equal values are in order of their names,
and a cursor has the value and the name of a row: a row whose value does not change is on exactly one page.
"""

import json
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from operator import itemgetter
from typing import Generic, TypeVar

from aiohttp import web

from licorne_core.values.errors import NotFound, shown
from licorne_core.views import InOrder
from licorne_server.http.pages import MAX_OFFSET, Maker, limit_of, number, text_in
from licorne_server.http.stream import JsonObject, send_json
from licorne_server.reads.paging import Page

T = TypeVar("T")

MAX_SORTED = 100_000
"""Maximum number of items that are sorted. Further items are left out, and the answer is marked as cut."""

MAX_CURSOR = 4096
"""Maximum number of characters of a cursor."""


Value = str | int | float
Place = tuple[Value, str]
"""Place of a row in an order: its value and its name."""


class Order:
    """An order of rows by a column, or by an amount in a column, such as ``allocated.vcore``."""

    def __init__(self, sort: str) -> None:
        """Read the parameter `sort`; a leading ``-`` means descending order."""
        self.sort = sort
        self.descending = sort.startswith("-")
        self._column, _, self._amount = sort.removeprefix("-").partition(".")

    def value(self, row: JsonObject) -> Value:
        """The value of a row; a missing amount is 0.

        Raises:
            HTTPBadRequest: rows have no such column.
        """
        if self._column not in row:
            columns = ", ".join(sorted(row))
            raise web.HTTPBadRequest(text=f"sort: {shown(self._column)} is none of {columns}")
        value = row[self._column]
        if isinstance(value, dict):
            value = value.get(self._amount or _member_of(value), 0)
        if isinstance(value, list | tuple):
            return len(value)
        return value if isinstance(value, str | int | float) else 0

    def comes_before(self, one: Place, other: Place) -> bool:
        """True if a row at one place precedes a row at another."""
        if one[0] != other[0]:
            return (one[0] > other[0]) is self.descending  # type: ignore[operator]
        return one[1] < other[1]

    def cursor(self, place: Place) -> str:
        """A text that encodes a place in this order."""
        return urlsafe_b64encode(json.dumps([self.sort, *place]).encode()).decode()

    def place(self, cursor: str) -> Place:
        """Parse a cursor.

        Raises:
            HTTPBadRequest: the text is no cursor of this order.
        """
        with suppress(ValueError, RecursionError):
            match json.loads(urlsafe_b64decode(cursor[:MAX_CURSOR].encode())):
                case [self.sort, str() | int() | float() as value, str(name)]:
                    return value, name
        raise web.HTTPBadRequest(text=f"after: {shown(cursor)} is no cursor of the order {shown(self.sort)}")


_VALUE, _NAME, _ROW = itemgetter(0), itemgetter(1), itemgetter(2)


def _member_of(value: JsonObject) -> str:
    """The member by which an object is ordered: a code, or the time of a mark."""
    return "code" if "code" in value else "time"


class Best(Generic[T]):
    """The first rows of a list in an order, after a cursor."""

    def __init__(
        self,
        items: Iterable[T | None],
        to_row: Callable[[T], JsonObject | None],
        name_of: Callable[[JsonObject], str],
        order: Order,
        *,
        after: str,
        limit: int,
    ) -> None:
        """Sort all items that have a row; the page begins after the cursor `after`, or with the first row.

        Rows have distinct names. A time slice may end at a None in place of an item.
        """
        self.looked_at = 0
        self.found = 0
        """Number of rows on all pages."""
        self.cut = False
        """True if `MAX_SORTED` items were sorted and more were left out."""
        self._items = items
        self._to_row = to_row
        self._name_of = name_of
        self._order = order
        self._after = order.place(after) if after else None
        self._limit = limit
        self._behind = 0
        # Value, name and row.
        self._kept: list[tuple[Value, str, JsonObject]] = []
        self._last: Place | None = None

    def steps(self) -> Iterator[None]:
        """Read all items; the reader may pause at every step.

        Raises:
            HTTPBadRequest: the order or the cursor does not fit the rows.
        """
        for item in self._items:
            if item is not None:
                if self.looked_at >= MAX_SORTED:
                    self.cut = True
                    break
                self.looked_at += 1
                with suppress(NotFound):
                    self._offer(self._to_row(item))
            yield
        self._trim()

    def _offer(self, row: JsonObject | None) -> None:
        if row is None:
            return
        self.found += 1
        order = self._order
        place = order.value(row), self._name_of(row)
        try:
            if self._after is not None and not order.comes_before(self._after, place):
                return
        except TypeError:
            raise web.HTTPBadRequest(text="after: is a cursor of another list") from None
        self._behind += 1
        if self._last is None or order.comes_before(place, self._last):
            self._kept.append((*place, row))
            if len(self._kept) >= 2 * self._limit:
                self._trim()

    def _trim(self) -> None:
        """Retain the first rows: the sort is stable, so rows of equal values stay in order of names."""
        kept = self._kept
        kept.sort(key=_NAME)
        kept.sort(key=_VALUE, reverse=self._order.descending)
        del kept[self._limit :]
        if len(kept) == self._limit:
            self._last = kept[-1][:2]

    @property
    def rows(self) -> list[JsonObject]:
        """The rows of the page."""
        return list(map(_ROW, self._kept))

    @property
    def next(self) -> str:
        """The cursor of the next page; empty if there is none."""
        return self._order.cursor(self._kept[-1][:2]) if self._behind > len(self._kept) else ""


Name = TypeVar("Name", bound=str)


def order_of(request: web.Request) -> Order | None:
    """The order in the parameter `sort`; None for the default one."""
    sort = text_in(request, "sort")
    return Order(sort) if sort else None


async def by_name(
    request: web.Request,
    maker: Maker,
    names: InOrder[Name],
    row: Callable[[Name], JsonObject | None],
    name: str,
    finish: Callable[[JsonObject], None],
) -> web.StreamResponse:
    """A page of a list in order of names; the next page begins after the name `next`.

    The column `name` of a row has its name.
    """
    order = order_of(request)
    if order is not None:
        return await in_order(request, maker, order, names, row, itemgetter(name), names.count, finish)

    def whole(item: Name) -> JsonObject | None:
        made = row(item)
        if made is not None:
            finish(made)
        return made

    behind = names.behind(request.query.get("after", ""))
    found = await maker.page(request, behind, whole)
    return await send(request, maker, found, {"next": found.last or "", "total": names.count})


async def by_place(
    request: web.Request,
    maker: Maker,
    items: Iterable[T | None],
    fits: Callable[[T], bool],
    row: Callable[[T], JsonObject],
    total: int | None = None,
    finish: Callable[[JsonObject], None] | None = None,
    name_of: Callable[[JsonObject], str] = itemgetter("allocationKey"),
) -> web.StreamResponse:
    """A page of a list without names; `offset` is the number of rows before it."""
    order = order_of(request)
    if order is not None:
        fitting = (item if item is not None and fits(item) else None for item in items)
        return await in_order(request, maker, order, fitting, row, name_of, total, finish)
    offset = min(MAX_OFFSET, number(request, "offset", 0))

    def behind() -> Iterator[T | None]:
        """Items of the page, with None where the reader may pause."""
        before = offset
        for item in items:
            if item is None or not fits(item):
                yield None
            elif before:
                before -= 1
                yield None
            else:
                yield item

    found = await maker.page(request, behind(), row)
    if finish is not None:
        await maker.all(_finished(found.rows, finish))
    following = "" if found.last is None else str(offset + len(found.rows))
    members: JsonObject = {"next": following} if total is None else {"next": following, "total": total}
    return await send(request, maker, found, members)


async def in_order(
    request: web.Request,
    maker: Maker,
    order: Order,
    items: Iterable[T | None],
    row: Callable[[T], JsonObject | None],
    name_of: Callable[[JsonObject], str],
    total: int | None = None,
    finish: Callable[[JsonObject], None] | None = None,
) -> web.StreamResponse:
    """A page of a list in an order that the viewer chooses, after the cursor `after`."""
    after = request.query.get("after", "")
    best = Best(items, row, name_of, order, after=after, limit=limit_of(request))
    await maker.all(best.steps())
    rows = best.rows
    if finish is not None:
        await maker.all(_finished(rows, finish))
    answer: JsonObject = {"next": best.next} if total is None else {"next": best.next, "total": total}
    answer |= {"found": best.found, "lookedAt": best.looked_at, "refresh": maker.refresh}
    return await send_json(request, {**answer, "cut": best.cut, "rows": rows})


def _finished(rows: Iterable[JsonObject], finish: Callable[[JsonObject], None]) -> Iterator[None]:
    """Complete the rows of a page; rows of removed objects are not changed."""
    for row in rows:
        with suppress(NotFound):
            finish(row)
        yield


async def send(
    request: web.Request, maker: Maker, found: Page[T, JsonObject], members: JsonObject
) -> web.StreamResponse:
    answer = {**members, "lookedAt": found.spent, "refresh": maker.refresh, "rows": found.rows}
    return await send_json(request, answer)
