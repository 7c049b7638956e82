"""The faults of the test kit: each has the effect in docs/testing.md, and is recovered from."""

import asyncio
from contextlib import suppress

import grpc
import pytest

from licorne import Drained, FailMode, Limits, Reconnected, RetryConfig
from licorne.errors import NotFound
from licorne_server.process.settings import SettingsError
from licorne_server.testing import FakeRM, Proxy, Served, VirtualClock, parts, serve
from support.core.steps import listed
from support.patience import PATIENCE
from support.peers.shim import Shim, ask, eventually, new_allocations

QUICK = RetryConfig(initial=0.01, maximum=0.05)
QUEUES = """
partitions:
  - name: default
    queues:
      - name: root
        submitacl: "*"
        queues:
          - {name: batch, resources: {max: {vcore: 2}}}
          - {name: free}
"""


async def filled(rm: FakeRM, count: int = 2) -> None:
    """Add a node and an application, and run this number of asks."""
    await rm.add_nodes(1)
    await rm.submit("job", queue="root.batch")
    await rm.ask("job", count, vcore=1000)
    await rm.allocated(count)


def running(server: Served) -> set[str]:
    """The keys of the server's allocations."""
    partition = server.views.partitions()[0].name
    return {str(item.key) for item, *_ in listed(server.views.allocations(partition, "job"))}


@pytest.mark.parametrize("crash", [True, False])
@pytest.mark.parametrize("virtual", [True, False])
async def test_a_restarted_server_has_no_state(crash: bool, virtual: bool) -> None:
    """The server returns on the same ports, after a crash or a stop; the RM replays its state."""
    clock = VirtualClock() if virtual else None
    async with serve(QUEUES, clock=clock) as server:
        where = (server.target, server.http)
        async with FakeRM(server.target, retry=QUICK) as rm:
            await filled(rm)
            await server.restart(crash=crash)
            assert (server.target, server.http) == where
            await rm.until(lambda: rm.client.stats.replayed == 2, "the second replay")
            assert running(server) == {"job-1", "job-2"}
            assert any(isinstance(event, Reconnected) for event in rm.events)
            await rm.release(["job-1"])
            await rm.ask("job", vcore=1000)
            assert set(await rm.allocated(2)) == {"job-2", "job-3"}


async def test_only_a_stop_is_announced() -> None:
    """An RM is informed of a stop in advance, and not of a crash."""
    async with serve(QUEUES) as server, FakeRM(server.target, retry=QUICK) as rm:
        await server.restart(crash=True)
        await rm.until(lambda: rm.client.stats.replayed == 2, "the second replay")
        assert not [event for event in rm.events if isinstance(event, Drained)]
        await server.stop()
        await rm.until(lambda: any(isinstance(event, Drained) for event in rm.events), "the announcement")


async def test_a_stopped_server_reports_that_it_is_down() -> None:
    """A call to a stopped server reports that it is down; a second start or stop has no effect."""
    async with serve(QUEUES) as server:
        with pytest.raises(ValueError, match="the server is running"):
            await server.start()
        await server.crash()
        await server.crash()
        await server.stop()
        with pytest.raises(ValueError, match="the server is down"):
            _ = server.views
        with pytest.raises(ValueError, match="the server is down"):
            await server.drop_streams("rm1")
        host, _, port = server.target.rpartition(":")
        other = await asyncio.start_server(lambda *_: None, host, int(port))
        with pytest.raises(SettingsError):
            await server.start()
        other.close()
        await other.wait_closed()
        await server.start()
        assert server.views.rms() == ()


async def test_streams_of_one_rm_are_dropped() -> None:
    """The RM resumes its session without a replay, and the other RM is unaffected."""
    async with (
        serve(QUEUES) as server,
        FakeRM(server.target, retry=QUICK) as rm,
        FakeRM(server.target, rm_id="rm2", retry=QUICK) as other,
    ):
        await filled(rm)
        assert await server.drop_streams("rm1") == 1
        await rm.until(lambda: rm.client.stats.resumed == 1, "the resumption")
        assert (rm.client.stats.replayed, other.client.stats.streams) == (1, 1)
        await rm.release(["job-1"])
        with pytest.raises(ValueError, match="rm_id is 'rm9': no such RM"):
            await server.drop_streams("rm9")


async def test_one_of_three_streams_is_dropped() -> None:
    """One stream of an RM on the published interface ends, and the others continue."""
    async with serve() as server, grpc.aio.insecure_channel(server.target) as channel:
        shim = Shim(channel)
        allocations, _, nodes = await shim.set_up()
        assert await server.drop_streams("rm", "Session.Update") == 0
        assert await server.drop_streams("rm", "UpdateNode") == 1
        code, text = await nodes.ending()
        assert (code, text) == (grpc.StatusCode.UNAVAILABLE, "the test has dropped this stream")
        await shim.ask(allocations, ask("k1"))
        assert await new_allocations(allocations, 1) == {"k1": "n0"}


@pytest.mark.parametrize("towards", ["rm", "server"])
@pytest.mark.parametrize("count", [1, 40, 400])
async def test_a_connection_is_cut_in_a_message(towards: str, count: int) -> None:
    """The connection breaks after this number of bytes; in the end everything is delivered once."""
    async with (
        serve(QUEUES) as server,
        Proxy(server.target) as proxy,
        FakeRM(proxy.target, retry=QUICK) as rm,
    ):
        await rm.add_nodes(1)
        await rm.submit("job", queue="root.batch")
        proxy.cut_after(count, towards=towards)
        keys = await rm.ask("job", 200, vcore=10)
        assert set(await rm.allocated(200)) == set(keys)
        assert proxy.connections == 2
        assert running(server) == set(keys)


@pytest.mark.parametrize(
    ("count", "towards", "said"),
    [(0, "rm", "count is 0"), (1, "moon", "towards is 'moon'")],
)
def test_an_impossible_cut_is_refused(count: int, towards: str, said: str) -> None:
    """An impossible count or side is refused with its value."""
    with pytest.raises(ValueError, match=said):
        Proxy().cut_after(count, towards=towards)


async def test_a_frozen_connection_loses_nothing() -> None:
    """Nothing is received while a connection is frozen; afterwards everything is."""
    async with (
        serve(QUEUES) as server,
        Proxy(server.target) as proxy,
        FakeRM(proxy.target) as rm,
    ):
        await rm.add_nodes(1)
        await rm.submit("job", queue="root.batch")
        proxy.flowing.clear()
        await rm.ask("job", 2, vcore=1000)
        assert running(server) == set()
        proxy.flowing.set()
        await rm.allocated(2)


async def test_an_rm_refuses_every_node() -> None:
    """With `refusing` each check is refused for that reason, which `explain` returns; without it none is."""
    async with serve() as server, FakeRM(server.target, predicates=lambda name, node: None) as rm:
        await rm.add_nodes(2)
        await rm.submit("job")
        rm.judge.refusing = "maintenance"
        await rm.ask("job")
        # The ask and the refusal of its check may not have reached the server yet.
        answer: object = None
        async with asyncio.timeout(PATIENCE):
            while "maintenance" not in str(answer):
                with suppress(NotFound):
                    answer = await rm.client.explain("job-1")
        assert rm.allocations == {}
        rm.judge.refusing = ""
        await rm.release(["job-1"])
        await rm.ask("job")
        assert set(await rm.allocated(1)) == {"job-2"}


@pytest.mark.parametrize(("fail_mode", "count"), [(FailMode.OPEN, 1), (FailMode.CLOSED, 0)])
async def test_an_rm_answers_too_late(fail_mode: FailMode, count: int) -> None:
    """With a `delay` beyond the deadline the fail mode decides, under the clock of the test."""
    clock = VirtualClock()
    async with (
        serve(clock=clock) as server,
        FakeRM(
            server.target,
            predicates=lambda name, node: None,
            fail_mode=fail_mode,
            predicate_deadline=60.0,
            clock=clock,
        ) as rm,
    ):
        await rm.add_nodes(1)
        await rm.submit("job")
        rm.judge.delay = 100.0
        await rm.ask("job")
        await rm.until(lambda: len(rm.checks) == 1, "a check")
        assert rm.allocations == {}
        await clock.advance(61)
        await rm.until(lambda: len(rm.allocations) == count, "what the fail mode says")


async def test_a_late_answer_within_the_deadline_counts() -> None:
    """With a `delay` within the deadline the function's answer counts, at its time."""
    clock = VirtualClock()
    async with (
        serve(clock=clock) as server,
        FakeRM(
            server.target,
            predicates=lambda name, node: "no" if node == "node-1" else None,
            predicate_deadline=60.0,
            clock=clock,
        ) as rm,
    ):
        await rm.add_nodes(2)
        await rm.submit("job")
        rm.judge.delay = 5.0
        await rm.ask("job")
        await rm.until(lambda: len(rm.checks) == 1, "a check")
        rm.judge.delay = 0.0
        await clock.advance(5)
        assert await rm.allocated(1) == {"job-1": "node-2"}


async def test_an_rm_that_does_not_read_loses_nothing() -> None:
    """While `reading` is cleared no event is read; the server has sent them; afterwards all are received."""
    limits = Limits(events=1)
    async with serve() as server, FakeRM(server.target, limits=limits) as rm:
        await rm.add_nodes(1)
        await rm.submit("job")
        rm.reading.clear()
        await rm.ask("job", 5)
        await eventually(lambda: len(running(server)) == 5)
        assert rm.allocations == {}
        rm.reading.set()
        assert set(await rm.allocated(5)) == running(server)


async def test_an_rm_that_does_not_read_can_be_closed() -> None:
    """A test that fails while nothing is read can still close the RM."""
    async with serve() as server:
        rm = FakeRM(server.target)
        async with rm:
            await rm.add_nodes(1)
            await rm.submit("job")
            rm.reading.clear()
            await rm.ask("job")
            await eventually(lambda: running(server) == {"job-1"})
        assert rm.allocations == {"job-1": "node-1"}


async def test_a_failed_wait_lists_reasons_with_counts() -> None:
    """The error lists the pending asks with their explanations, the most frequent first."""
    async with serve(QUEUES) as server, FakeRM(server.target) as rm:
        await rm.add_nodes(1)
        await rm.submit("job", queue="root.batch")
        await rm.ask("job", 3, vcore=1000)
        await rm.submit("large", queue="root.free")
        await rm.ask("large", 1, vcore=64_000)
        await rm.ask("job", 17, vcore=1000)
        await rm.allocated(2)
        rm.patience = 0.3
        with pytest.raises(TimeoutError) as waited:
            await rm.allocated(21)
        text = str(waited.value)
        assert "waited 0.3 s for 21 allocations; there are 2 allocations" in text
        assert "19 asks are pending: job-3, large-1, job-4," in text
        assert "job-11 and 9 more" in text
        full, large = [line for line in text.splitlines() if line.startswith("  ")]
        assert full.startswith("  job-3 and 17 more: pending: exceeds the maximum of queue")
        assert large.startswith("  large-1: pending: ")


async def test_a_failed_wait_for_very_many_asks_is_bounded() -> None:
    """The error has a few reasons, for which the server explains only some asks."""
    counts = {"a": 3, "b": 2, "c": 5, "d": 1, "e": 10 * parts.EXPLAINED}
    queues = ", ".join(f"{{name: {name}, resources: {{max: {{vcore: 0}}}}}}" for name in counts)
    root = f"{{name: root, submitacl: '*', queues: [{queues}]}}"
    config = f"partitions: [{{name: default, queues: [{root}]}}]"
    async with serve(config) as server, FakeRM(server.target) as rm:
        await rm.add_nodes(1)
        for name, count in counts.items():
            await rm.submit(name, queue=f"root.{name}")
            await rm.ask(name, count, vcore=1)
        rm.patience = 0.3
        with pytest.raises(TimeoutError) as waited:
            await rm.allocated(1)
    most, *told = [line for line in str(waited.value).splitlines() if line.startswith("  ")]
    assert most.startswith(f"  e-1 and {parts.EXPLAINED - 12} more: pending: ")
    assert [line.partition(":")[0] for line in told[:2]] == ["  c-1 and 4 more", "  a-1 and 2 more"]
    assert told[2:] == [
        "  3 for 2 other reasons",
        f"  {sum(counts.values()) - parts.EXPLAINED} were not looked at",
    ]


async def test_a_failed_wait_reports_an_unavailable_server() -> None:
    """If the server is unavailable, the error of the wait says so, too."""
    async with serve(QUEUES) as server, FakeRM(server.target, retry=QUICK) as rm:
        await rm.submit("job", queue="root.batch")
        await rm.ask("job", 1)
        await server.crash()
        rm.patience = 0.3
        with pytest.raises(TimeoutError, match="job-1: not explained, ConnectionLost"):
            await rm.allocated(1)
