"""Requests that are read before earlier ones are carried out, on a loop that the test moves."""

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
    """An RM with checks, a node and an application; a missing answer counts as refusal."""
    rm = WireRm(site, "rm1", [])
    # The number of the instance determines what a missing answer means.
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


def test_an_answer_overtakes_asks(site: Site, rm: WireRm) -> None:
    """An answer counts from the time it was read, although earlier asks are not carried out yet."""
    rm.say(ALLOCATIONS, [AskItem("first", "a0", ONE)])
    rm.connection.flow(KINDS)
    site.rest()
    rm.listen()
    rm.say(ALLOCATIONS, [AskItem(f"k{number}", "a0", ONE) for number in range(200)])
    rm.answer(0, (), 1, as_list=True)
    # So few rounds that most asks are still queued.
    rm.connection.flow([WHOLE], rounds=30)
    [report] = site.scheduler.views.partitions()
    assert report.pending_asks < 150
    site.clock.move(site.clock.now() + 3.0)
    site.rest()
    site.check()
    assert books_of(site.scheduler, "rm1").keys["a0", "first"].node_id == "n0"


def test_a_check_of_a_broken_stream_has_a_deadline(site: Site, rm: WireRm) -> None:
    """If its stream breaks while a check is written, its time begins when it is sent again."""
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


def test_a_stream_broken_at_a_full_outbox_can_be_resumed(site: Site, rm: WireRm) -> None:
    """A stream that breaks while its reader waits for room is replaced by a resumption."""
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
    # Until there is no room in the middle of a request.
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


def test_requests_after_a_fault_are_not_carried_out(site: Site, rm: WireRm) -> None:
    """Requests before a fault are carried out; later ones are expected again on the next stream."""
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


def test_requests_of_a_lost_stream_do_not_reach_the_next_registration(site: Site) -> None:
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
    # The first request is being carried out, and the second one is queued.
    rm.connection.flow([ALLOCATIONS], rounds=0)
    while not site.scheduler.views.partitions()[0].pending_asks:
        assert site.loop.round()
    assert site.scheduler.views.partitions()[0].pending_asks < 20
    rm.connection.forget()
    rm.register(GOOD[0])
    site.rest()
    site.check()
    # There is no rejection either.
    assert site.rms.get("rm1", "").outbox.messages == 0
