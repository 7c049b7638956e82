"""Sums of resource-hours: by hour, by place, in pages, and of several members."""

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager

import pytest

from licorne.v1 import state_pb2 as pb
from licorne_server.process.fair import TimeSlices
from licorne_server.reads import resource_hours
from licorne_server.reads.resource_hours import (
    HOUR,
    PER_HOUR,
    Hours,
    HoursRow,
    Summary,
    Wanted,
    in_hours,
    merged_hours,
)
from licorne_server.wire.errors import CallError
from support.server.accounted import BEGIN, A, B, row


def slices() -> AbstractAsyncContextManager[Callable[[], bool]]:
    """A slice of an idle server of its own, because a pause after it would outlive the loop of a test."""
    return TimeSlices(lambda: False).slice("reader")


def test_usage_is_spread_over_the_hours_between() -> None:
    """Each hour has its share, the total is exact, and ended usage counts in the last hour."""
    hours, used = Hours(), 10**15 * 30 * 24 * PER_HOUR + 7
    begin, end = BEGIN + HOUR / 2, BEGIN + 2 * HOUR + HOUR / 4
    hours.spread(begin, end, A, HoursRow({"memory": used}, ended=3))
    shares = [rows[A].used["memory"] for rows in hours.by_hour.values()]
    assert sum(shares) == used
    assert [round(share / used, 6) for share in shares] == [round(n / 7, 6) for n in (2, 4, 1)]
    assert [rows[A].ended for rows in hours.by_hour.values()] == [0, 0, 3]
    petabytes = in_hours({"memory": used})["memory"] / 10**15
    assert round(petabytes) == 720


def test_the_oldest_hours_are_dropped_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of too many rows or days the oldest hours are dropped; in the last hour one row has the excess."""
    monkeypatch.setattr(resource_hours, "MOST_ROWS", 4)
    hours = Hours()
    for n in range(3):
        hours.add(BEGIN + n * HOUR, A, row(1))
        hours.add(BEGIN + n * HOUR, B, row(1))
    assert (hours.kept_since, hours.rows) == (BEGIN + HOUR, 4)
    for n in range(9):
        hours.add(BEGIN + 2 * HOUR, A._replace(user=f"u{n}"), row(1))
    assert hours.kept_since == BEGIN + 2 * HOUR
    assert in_hours(hours.hour(BEGIN + 2 * HOUR)[A.others].used) == {"vcore": 7}
    hours.add(BEGIN + 500 * 24 * HOUR, A, row(1))
    assert hours.kept_since == BEGIN + 500 * 24 * HOUR


def test_dropped_rows_do_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    """The rows of a dropped hour do not count in the number of rows."""
    monkeypatch.setattr(resource_hours, "MOST_ROWS", 4)
    hours = Hours()
    for n in range(2):
        hours.add(BEGIN + n * HOUR, A, row(1))
        hours.add(BEGIN + n * HOUR, B, row(1))
    hours.add(BEGIN, A.others, row(1))
    assert (list(hours.by_hour), hours.rows) == ([BEGIN + HOUR], 2)
    hours.add(BEGIN, A, row(1))
    assert (list(hours.by_hour), hours.rows) == ([BEGIN, BEGIN + HOUR], 3)


async def test_sums_are_by_queue_user_or_group() -> None:
    """A queue includes its descendants; owners without a group are in none; pages continue after a row."""
    for by, wanted in (
        ("queue", {"root": 5, "root.a": 2, "root.b": 3, "root.b.c": 3}),
        ("user", {"ann": 2, "bob": 3}),
        ("group", {B.group: 3}),
    ):
        total = Summary(by)
        assert list(total.add([{A: row(2), B: row(3)}, {}], lambda name: name == "[rm1]default")) == []
        page = await total.page("", 1, slices)
        found = list(page.rows)
        while page.next_page_token:
            page = await total.page(page.next_page_token, 1, slices)
            found += page.rows
        assert {one.name: one.hours["vcore"] for one in found} == wanted
        assert list(total.add([{A: row(9)}], lambda _: False)) == []
    with pytest.raises(CallError, match="page_token x is not from this list"):
        await Summary("user").page("x", 1, slices)
    with pytest.raises(CallError, match="by node is none of queue, user, group"):
        Wanted.of("node", 0, 0, "", 0)


async def test_very_many_sums_are_computed_in_slices() -> None:
    """Sorting the sums and encoding them takes many slices, between which other tasks run."""
    total, slices = Summary("user"), 0
    list(total.add([{A._replace(user=f"u{n:05}"): row(1) for n in range(3000)}], lambda _: True))

    @asynccontextmanager
    async def slice_of_a_step() -> AsyncIterator[Callable[[], bool]]:
        nonlocal slices
        slices += 1
        yield lambda: True

    page = await total.page('["[rm1]default", "u00999"]', 1000, slice_of_a_step)
    assert [one.name for one in page.rows] == [f"u{n:05}" for n in range(1000, 2000)]
    assert page.next_page_token == '["[rm1]default", "u01999"]'
    assert slices > 1000


def test_pages_of_members_are_one_list() -> None:
    """An RM that has moved has the total of both members, and no row is lost between two pages."""

    def answer(names: str, token: str = "", since: int = 0) -> pb.ListResourceHoursResponse:
        rows = [
            pb.ResourceHours(partition="p", name=name, hours={"vcore": 1.0}, allocations=1) for name in names
        ]
        return pb.ListResourceHoursResponse(rows=rows, next_page_token=token, kept_since=since)

    request = pb.ListResourceHoursRequest(page_size=2)
    page = merged_hours(request, [answer("ac", '["p", "c"]', 7), answer("bc", "", 5)])
    assert [(one.name, one.hours["vcore"]) for one in page.rows] == [("a", 1.0), ("b", 1.0)]
    assert (page.next_page_token, page.kept_since) == ('["p", "b"]', 5)
    page = merged_hours(request, [answer("cd", '["p", "d"]'), answer("c", "")])
    assert [(one.name, one.hours["vcore"], one.allocations) for one in page.rows] == [
        ("c", 2.0, 2),
        ("d", 1.0, 1),
    ]
    assert page.next_page_token == '["p", "d"]'
    assert not merged_hours(request, [answer("e"), answer("")]).next_page_token
