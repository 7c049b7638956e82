"""Pages of the page's lists: in their default order, or in one that the viewer chooses."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from operator import itemgetter
from typing import TypeVar

from aiohttp import web

from licorne_core.values.errors import NotFound
from licorne_core.views import InOrder
from licorne_server.http.pages import MAX_OFFSET, Maker, limit_of, number, text_in
from licorne_server.http.stream import JsonObject, send_json
from licorne_server.http.ui.sorting import Best, Order
from licorne_server.reads.paging import Page

T = TypeVar("T")
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
    """A page of a list without names; `offset` counts the rows before it."""
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
