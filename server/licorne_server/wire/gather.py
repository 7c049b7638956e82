"""Reading the items of a request one by one, and packing them into commands.

An item that breaks a cap or cannot be read becomes a refusal, and the others go on.
"""

from collections.abc import Callable, Iterator, Sequence, Sized
from typing import Generic, NamedTuple, TypeVar

from licorne_server.wire.items import SMALL, BadItem, Large, Layout, names_of, take_apart
from licorne_server.wire.pacing import PART, Pace

COMMAND_BYTES = 256 * 1024
"""Bytes of items that go into one command, or one item."""

COMMAND_AMOUNTS = 2_000
"""Amounts of resources in items that go into one command, or one item. Those of asks in a row that
have the same cost the core little."""

_AGAIN = 4
"""Weight of a refused item's bytes, because it is looked at again."""

T = TypeVar("T")
R = TypeVar("R")


class Sort(NamedTuple, Generic[T, R]):
    """Reader functions for items of one sort."""

    layout: Layout
    read: Callable[[bytes], T]
    read_large: Callable[[Large], T]
    refuse: Callable[[list[str], str], R]
    """Makes the refusal, from the names in the item and the reason."""
    amounts: Callable[[T], Sized | None] = lambda _: None
    """The amounts of resources in an item; None for none."""


async def gather(
    items: Sequence[bytes], batch_size: int, sort: Sort[T, R], pace: Pace
) -> tuple[list[Sequence[T]], list[R]]:
    """Read items: the accepted ones, grouped by command, and the refusals of the others.

    A command has at most `batch_size` items, and `COMMAND_BYTES` of them. All are read before the
    first is handled. So a malformed item ends the stream before anything of its request is done.
    """
    taken: list[T] = []
    sizes: list[int] = []
    refused: list[R] = []
    share = PART // batch_size
    for raw in items:
        size, names = len(raw), raw
        try:
            if size > SMALL:
                large = await take_apart(raw, sort.layout, pace)
                names = large.head
                taken.append(sort.read_large(large))
            else:
                taken.append(sort.read(raw))
            sizes.append(size)
        except BadItem as problem:
            refused.append(sort.refuse(names_of(names, sort.layout.names), str(problem)))
            size *= _AGAIN
        pace.done += size if size > share else share
        if pace.done >= PART:
            await pace.rest()
    if len(taken) == 1:
        return [taken], refused
    return list(_runs(taken, sizes, batch_size, sort.amounts)), refused


def _runs(
    items: Sequence[T],
    sizes: Sequence[int],
    batch_size: int,
    amounts: Callable[[T], Sized | None],
) -> Iterator[Sequence[T]]:
    """The items in order, in runs of which each goes into one command."""
    begin = room = left = 0
    last: Sized | None = None
    for index, item in enumerate(items):
        found = amounts(item)
        count = 0 if found is None or found is last else len(found)
        room -= sizes[index]
        left -= count
        last = found
        if room < 0 or left < 0 or index - begin == batch_size:
            if index:
                yield items[begin:index]
            begin, room, left = index, COMMAND_BYTES - sizes[index], COMMAND_AMOUNTS - count
    if items:
        yield items[begin:]
