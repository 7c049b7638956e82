"""Long answers: computed in slices, cut into pages, one at a time."""

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager

import pytest

from licorne.v1 import state_pb2 as pb
from licorne_core.values.errors import NotFound
from licorne_server.process.fair import TimeSlices, walked
from licorne_server.reads.paging import Page, filled, queues_after
from support.core.builders import register
from support.core.driver import Driver

TREE = """
partitions:
  - name: default
    queues:
      - name: root
        queues: [{name: a, queues: [{name: x}, {name: y}]}, {name: a-b}, {name: b}]
"""
PATHS = ["root", "root.a", "root.a.x", "root.a.y", "root.a-b", "root.b"]


def slices() -> AbstractAsyncContextManager[Callable[[], bool]]:
    """A slice of an idle server of its own, because a pause after it would outlive the loop of a test."""
    return TimeSlices(lambda: False).slice("host")


def row(number: int) -> pb.Queue:
    """A queue named by a number."""
    return pb.Queue(path=str(number))


async def test_a_list_without_pages_is_computed_in_slices() -> None:
    """A list without pages is complete, and has no pauses."""
    steps = (number if number % 2 else None for number in range(30_000))
    assert await walked(steps, slices) == list(range(1, 30_000, 2))


async def test_work_continues_in_the_next_slice() -> None:
    """The remaining work is done in further slices, each of the full length."""
    lengths: list[int] = []

    @asynccontextmanager
    async def three_steps() -> AsyncIterator[Callable[[], bool]]:
        lengths.append(0)

        def over() -> bool:
            lengths[-1] += 1
            return lengths[-1] == 3

        yield over

    assert await walked(range(7), three_steps) == list(range(7))
    assert lengths == [3, 3, 1]


async def test_removed_items_are_skipped() -> None:
    """An item that was removed, or has no content, uses no place in the page."""

    def picky(number: int) -> pb.Queue | None:
        if number % 3 == 0:
            raise NotFound("gone")
        return None if number % 3 == 1 else row(number)

    page = await filled(Page(range(10), picky, size=2), slices)
    assert [item.path for item in page.rows] == ["2", "5"]
    assert page.last == 5


async def test_the_length_of_pages_is_bounded() -> None:
    """A request for more than the maximum gets the maximum, and a token for the next page."""
    page = await filled(Page(range(20_000), row, size=1_000_000), slices)
    assert (len(page.rows), page.last) == (10_000, 9_999)
    page = await filled(Page(range(20), row, budget=5 * row(1).ByteSize()), slices)
    assert (len(page.rows), page.last) == (5, 4)


async def test_pauses_are_not_items() -> None:
    """No item is lost at a pause, and the token is that of an item."""
    items = [None, 1, None, 2, None, 3]
    page = await filled(Page(items, row, size=2), slices)
    assert ([item.path for item in page.rows], page.last) == (["1", "2"], 2)
    whole = await filled(Page(items, row), slices)
    assert ([item.path for item in whole.rows], whole.last) == (["1", "2", "3"], None)


@pytest.mark.parametrize(
    ("path", "behind"),
    [
        ("", PATHS),
        *((path, PATHS[place:]) for place, path in enumerate(PATHS, 1)),
        ("root.a.gone", PATHS[2:]),
        ("root.a.x.gone", PATHS[3:]),
        ("root.aa", PATHS[5:]),
        ("zzz", []),
    ],
)
def test_a_list_of_queues_continues_after_a_path(path: str, behind: list[str]) -> None:
    """A list of queues continues after any path, even a removed one."""
    driver = Driver()
    driver.do(register(TREE))
    partition = driver.views.resolve("default")
    assert [queue.path for queue in queues_after(driver.views, partition, path) if queue] == behind
