"""Requests that are read ahead of execution, on a loop that the test moves."""

import asyncio
from collections.abc import Iterator

import pytest

from licorne.v1 import session_pb2 as sp
from support.wire.books import books_of
from support.wire.connection import ALLOCATIONS, APPLICATIONS, KINDS, NODES, WHOLE
from support.wire.items import GOOD, AppItem, AskItem, NodeItem, ReleaseItem
from support.wire.shim import WireRm
from support.wire.site import Site
from support.wire.still import stillness

ONE = (("vcore", 1),)


@pytest.fixture
def site() -> Iterator[Site]:
    """A server whose loop the test moves, and which processes two items at a time."""
    with stillness():
        site = Site()
        yield site
        site.close()


@pytest.fixture
def rm(site: Site) -> WireRm:
    """An RM with checks, with a node and an application; a missing answer counts as refusal."""
    rm = WireRm(site, "rm1", [])
    # By its instance the RM says what silence means.
    rm.connection.instance = 1
    rm.begin_session(GOOD[0], is_asked=True)
    rm.begin_replay()
    rm.end_replay()
    rm.say(NODES, [NodeItem("n0", "CREATE", (("memory", 4), ("vcore", 4)), "")])
    rm.say(APPLICATIONS, [AppItem("a0")])
    rm.connection.flow(KINDS)
    site.rest()
    rm.listen()
    return rm


def test_an_answer_does_not_wait_behind_asks(site: Site, rm: WireRm) -> None:
    """It counts from the time it was read, though earlier asks are not carried out yet."""
    rm.say(ALLOCATIONS, [AskItem("first", "a0", ONE)])
    rm.connection.flow(KINDS)
    site.rest()
    rm.listen()
    rm.say(ALLOCATIONS, [AskItem(f"k{number}", "a0", ONE) for number in range(200)])
    rm.answer(0, (), 1, as_list=True)
    # So few rounds that most asks still wait.
    rm.connection.flow([WHOLE], rounds=30)
    [report] = site.scheduler.views.partitions()
    assert report.pending_asks < 150
    site.clock.move(site.clock.now() + 3.0)
    site.rest()
    site.check()
    assert books_of(site.scheduler, "rm1").keys["a0", "first"].node_id == "n0"


def test_a_check_that_was_lost_on_its_way_has_a_deadline_too(site: Site, rm: WireRm) -> None:
    """If its stream breaks while it is written, its time begins when it is sent again."""
    line = rm.connection.lines[WHOLE]

    async def take_no_checks(raw: bytes) -> None:
        if sp.UpdateResponse.FromString(raw).HasField("predicate_checks"):
            await asyncio.Event().wait()
        line.answers.append(raw)

    line.write = take_no_checks  # type: ignore[method-assign]
    rm.say(ALLOCATIONS, [AskItem("first", "a0", ONE)])
    rm.connection.flow(KINDS)
    site.rest()
    known = site.rms.get("rm1", "")
    under_way = (known.outbox.after(known.outbox.forgotten) or [])[-1]
    assert under_way.last_check == 1
    assert site.scheduler.next_deadline() is None
    rm.connection.cut(WHOLE, deaf_to=0)
    site.rest()
    site.clock.move(site.clock.now() + 60.0)
    site.rest()
    assert rm.resume()
    site.rest()
    rm.listen()
    assert rm.connection.talk is not None
    assert [check.id for check in rm.connection.talk.checks] == [1]
    assert site.scheduler.next_deadline() == site.clock.now() + 2.0


def test_a_full_outbox_keeps_no_broken_stream(site: Site, rm: WireRm) -> None:
    """A stream that breaks while nothing more is read of it can be followed by another."""
    line = rm.connection.lines[WHOLE]

    async def take_nothing(raw: bytes) -> None:
        await asyncio.Event().wait()

    line.write = take_nothing  # type: ignore[method-assign]
    for number, count in ((1, 30), (2, 1)):
        names = [f"m{number}-{place}-{'x' * 300}" for place in range(count)]
        rm.say(NODES, [NodeItem(name, "CREATE", ONE, "") for name in names])
        rm.say(APPLICATIONS, [AppItem(f"a{number}")])
    known = site.rms.get("rm1", "")
    rm.connection.flow([WHOLE], rounds=0)
    # Until the room ends in the middle of a request.
    while known.outbox.room.is_set():
        assert site.loop.round()
    rm.connection.cut(WHOLE, deaf_to=0)
    site.rest()
    assert rm.resume()
    rm.connection.flow(KINDS)
    site.rest()
    site.check()
    [report] = site.scheduler.views.partitions()
    assert (report.nodes, sum(report.applications.values())) == (32, 3)


def test_requests_behind_a_fault_are_not_carried_out(site: Site, rm: WireRm) -> None:
    """Earlier ones are; later ones are expected again on the next stream."""
    assert rm.connection.talk is not None
    line = rm.connection.lines[WHOLE]
    rm.say(NODES, [NodeItem("n1", "CREATE", ONE, "")])
    before = line.under_way.pop()
    rm.say(NODES, [NodeItem("n2", "CREATE", ONE, "")])
    behind = line.under_way.pop()
    line.under_way += [before, b"\xff\xff\xff", behind]
    rm.connection.flow(KINDS)
    site.rest()
    assert line.status is not None
    assert line.status.text.startswith("malformed message")
    [report] = site.scheduler.views.partitions()
    assert report.nodes == 2
    assert rm.resume()
    rm.connection.flow(KINDS)
    site.rest()
    [report] = site.scheduler.views.partitions()
    assert report.nodes == 3


def test_what_a_lost_stream_brought_is_not_for_the_next_registration(site: Site) -> None:
    """A request that was read and not begun when its stream of `si.v1` was lost is dropped."""
    rm = WireRm(site, "rm1", [])
    rm.register(GOOD[0])
    rm.connection.open_streams()
    rm.say(APPLICATIONS, [AppItem("a0")])
    rm.connection.flow(KINDS)
    site.rest()
    asks = [AskItem(f"k{number}", "a0", ONE) for number in range(20)]
    rm.say(ALLOCATIONS, [*asks, ReleaseItem("k0", "a0")])
    rm.say(ALLOCATIONS, [AskItem("late", "a0", ONE)])
    # The first is being carried out, and the second waits behind it.
    rm.connection.flow([ALLOCATIONS], rounds=0)
    while not site.scheduler.views.partitions()[0].pending_asks:
        assert site.loop.round()
    assert site.scheduler.views.partitions()[0].pending_asks < 20
    rm.connection.forget()
    rm.register(GOOD[0])
    site.rest()
    site.check()
    # Not even a rejection.
    assert site.rms.get("rm1", "").outbox.messages == 0
