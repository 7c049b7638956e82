"""`State`, alone and as `Client.state`: its answers, and failures of calls."""

import asyncio
import inspect
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import aclosing
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from licorne import (
    CallFailed,
    Client,
    Closed,
    ConnectionLost,
    EventRecord,
    EventsMissed,
    NotFound,
    RetryConfig,
    State,
    Unauthorized,
)
from licorne import calls as arguments
from licorne.admin_client import AdminCalls
from licorne.state_client import StateCalls
from licorne_server.reads import paging
from licorne_server.testing import FakeRM, Proxy, Served, serve
from support.patience import PATIENCE
from support.peers.shim import serving

QUICK = RetryConfig(initial=0.01, maximum=0.05)
QUEUES = """
partitions:
  - name: default
    queues:
      - name: root
        submitacl: "*"
        limits: [{limit: all, users: ["*"], maxapplications: 9}]
        queues:
          - {name: batch, resources: {max: {vcore: 2}}}
"""


@pytest.fixture
async def server() -> AsyncIterator[Served]:
    """A server whose queue `batch` has a maximum of two cores."""
    async with serve(QUEUES) as server:
        yield server


@pytest.fixture
async def rm(server: Served) -> AsyncIterator[FakeRM]:
    """An RM with three asks for a core each, one of which does not fit."""
    async with FakeRM(server.target, retry=QUICK) as rm:
        await rm.add_nodes(2, vcore=4000)
        await rm.submit("job", queue="root.batch", user="ann")
        await rm.ask("job", 3, vcore=1000)
        await rm.allocated(2)
        yield rm


async def test_an_rm_asks_why_its_ask_waits(rm: FakeRM) -> None:
    """The key suffices: the client knows the application, and the answer has the check."""
    answers = [await rm.client.explain("job-3"), await rm.client.state.explain("job-3")]
    for answer in answers:
        assert (answer.verdict, answer.queue) == ("pending", "root.batch")
        stopping = next(check for check in answer.checks if not check.passed)
        assert stopping.code == "QUEUE_MAX_EXCEEDED"
        assert dict(stopping.limit) == {"vcore": 2000}
    assert (await rm.client.explain("job-1")).verdict == "allocated"
    with pytest.raises(NotFound, match="ask 'nobody' is not known to this client"):
        await rm.client.explain("nobody")


async def test_an_ask_in_another_partition_is_found(server: Served) -> None:
    """The client knows the partition of its ask."""
    root = "{name: root, submitacl: '*', queues: [{name: a}]}"
    both = f"{QUEUES}\n  - {{name: gpu, queues: [{root}]}}\n"
    async with FakeRM(server.target, rm_id="rm2", config=both) as rm:
        await rm.submit("job", queue="root.a", partition="gpu")
        await rm.ask("job", partition="gpu", vcore=1)
        await rm.until(lambda: rm.states.get("job") == "Accepted", "the ask")
        assert (await rm.client.explain("job-1")).queue == "root.a"


async def test_a_separate_state_reads_everything(server: Served, rm: FakeRM) -> None:
    """A program that is no RM can read server, RMs, queues, applications, nodes and users."""
    async with State(server.target) as state:
        assert 1 in (await state.server()).protocols
        assert [one.rm_id for one in await state.rms()] == ["rm1"]
        [partition] = await state.partitions()
        assert (partition.name, partition.pending_asks) == ("[rm1]default", 1)
        assert [queue.path for queue in await state.queues()] == ["root", "root.batch"]
        [listed] = await state.applications(queue="root.batch")
        assert (listed.application_id, listed.state, len(listed.asks)) == ("job", "Running", 0)
        assert await state.applications(state="completed") == []
        shown = await state.application("job")
        assert [ask.allocation_key for ask in shown.asks] == ["job-3"]
        assert [node.node_id for node in await state.nodes()] == ["node-1", "node-2"]
        [user] = await state.users()
        assert (user.name, dict(user.root.allocated)["vcore"]) == ("ann", 2000)
        assert [one.name for one in await state.users("ann")] == ["ann"]
        assert await state.groups() == []
        assert await state.reservations() == []
        assert await state.preemptions() == []
        assert await state.outstanding() == []
        topology = await state.topology(shape={"vcore": 1000})
        assert (list(topology.levels), list(topology.domains)) == ([], [])
        assert await state.budgets() == []
        assert (await state.health()).severity == "ok"
        [batch, root] = sorted(await state.resource_hours(), key=lambda row: -len(row.name))
        assert (batch.name, root.name, batch.hours["vcore"] > 0) == ("root.batch", "root", True)
        for reasons in (await state.reasons(), await state.reasons(queue="root", partition="default")):
            assert [(one.code, one.asks) for one in reasons.reasons] == [("QUEUE_MAX_EXCEEDED", 1)]
            assert (reasons.asks, reasons.reasons[0].allocation_key) == (1, "job-3")
        assert (await state.reasons(queue="root.other")).asks == 0
        explained = await state.explain(application_id="job")
        assert explained.allocation_key == "job-3"


async def test_a_named_rm_gives_the_default_partition(server: Served, rm: FakeRM) -> None:
    """With `rm_id` the default partition is that of this RM; full names keep their meaning."""
    async with (
        FakeRM(server.target, rm_id="rm2") as other,
        State(server.target, rm_id="rm2") as state,
    ):
        await other.add_nodes(1, prefix="other")
        assert [node.node_id for node in await state.nodes()] == ["other-1"]
        assert [one.name for one in await state.partitions()] == ["[rm2]default"]
        of_rm1 = await state.nodes(partition="[rm1]default")
        assert [node.node_id for node in of_rm1] == ["node-1", "node-2"]


async def test_lists_are_complete(server: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    """A list of several pages is returned as one, in order and without duplicates."""
    async with FakeRM(server.target) as rm:
        await rm.add_nodes(2500, vcore=1)
        nodes = await rm.client.state.nodes()
    names = [node.node_id for node in nodes]
    assert len(names) == 2500 > paging.PAGE_SIZE
    assert names == sorted(set(names))


@pytest.mark.parametrize(
    ("arguments", "error", "said"),
    [
        ({"application_id": "nobody"}, NotFound, "application nobody not found"),
        ({"application_id": "job", "key": "k"}, NotFound, "k"),
        ({"application_id": "job", "partition": "gpu"}, NotFound, "partition gpu not found"),
        ({"key": "job-3"}, ValueError, "application_id is empty"),
        ({"key": 7, "application_id": "job"}, TypeError, "key is 7: it must be a text"),
    ],
)
async def test_missing_objects_are_errors_with_their_names(
    server: Served, rm: FakeRM, arguments: dict[str, str], error: type[Exception], said: str
) -> None:
    """The error is one of the client's own, with the words of the server."""
    async with State(server.target) as state:
        with pytest.raises(error, match=said):
            await state.explain(**arguments)


@pytest.mark.parametrize(
    ("call", "error", "said"),
    [
        (lambda state: state.application("job", limit=-1), ValueError, "limit is -1: it must lie"),
        (lambda state: state.application(None), TypeError, "application_id is None: it must"),
        (lambda state: state.queues(partition=7), TypeError, "partition is 7: it must be a text"),
        (lambda state: state.users(7), TypeError, "name is 7: it must be a text"),
        (lambda state: state.kept_events(2**64), ValueError, "start is 18446744073709551616: it"),
        (
            lambda state: anext(state.watch_events(-1)),
            ValueError,
            "start is -1: it must lie between 0",
        ),
    ],
)
async def test_invalid_arguments_are_named(
    call: Callable[[State], Awaitable[object]], error: type[Exception], said: str
) -> None:
    """An argument of a wrong type or size is refused with name and value, before a call."""
    nothing: Any = None
    async with State("127.0.0.1:1") as state:
        with pytest.raises(error, match=said):
            await call(state)
    with pytest.raises(TypeError, match="rm_id is None: it must be a text"):
        State("127.0.0.1:1", rm_id=nothing)


def test_every_argument_of_a_call_is_checked() -> None:
    """Every parameter of a call of `State` and `Admin` has a check of its own."""
    taken = {
        name
        for calls in (StateCalls, AdminCalls)
        for method_name, method in inspect.getmembers(calls, inspect.isfunction)
        if not method_name.startswith("_")
        for name in list(inspect.signature(method).parameters)[1:]
    }
    assert taken - {"asks"} == set(arguments.ARGUMENTS) - {"rm_id"}


async def test_a_refused_request_is_a_failed_call(server: Served, rm: FakeRM) -> None:
    """The error of a refused request has field and reason."""
    async with State(server.target) as state:
        with pytest.raises(CallFailed, match="state lost is none of active") as failed:
            await state.applications(state="lost")
        assert failed.value.reason == "INVALID_ARGUMENT"


async def test_calls_without_a_server_fail_and_later_ones_work() -> None:
    """A call fails at once without a server, and works as soon as there is one."""
    async with serve() as server, State(server.target) as state:
        await state.server()
        await server.crash()
        with pytest.raises(ConnectionLost):
            await state.server()
        await server.start()
        assert (await state.server()).version


async def test_a_silent_server_times_out() -> None:
    """A call has a deadline, and the error has its length."""
    async with (
        serve() as server,
        Proxy(server.target) as proxy,
        State(proxy.target, timeout=0.05) as state,
    ):
        proxy.flowing.clear()
        for call in (state.server(), state.queues(), take(state.watch_events(0), 1)):
            with pytest.raises(ConnectionLost, match=r"no answer within 0\.05 s"):
                await call


@pytest.mark.parametrize("timeout", [0, -1, float("nan"), float("inf"), "1"])
def test_an_invalid_timeout_is_refused(timeout: float) -> None:
    """An invalid timeout is refused with its name."""
    with pytest.raises(ValueError, match="timeout is"):
        State("localhost:7070", timeout=timeout)


async def test_reads_need_a_token(tmp_path: Path) -> None:
    """An operator's token may read everything, another token nothing."""
    file = tmp_path / "token"
    file.write_text("the-token-of-an-operator")
    async with serving(operator_tokens=(file,)) as server:
        async with State(server.grpc_address, token=file) as state:
            assert await state.rms() == []
        async with State(server.grpc_address, token=lambda: "not-the-token-at-all") as state:
            with pytest.raises(Unauthorized):
                await state.rms()
        async with State(server.grpc_address, token=tmp_path / "missing") as state:
            with pytest.raises(ConnectionLost, match="missing"):
                await state.rms()


async def test_a_closed_client_makes_no_calls(server: Served, rm: FakeRM) -> None:
    """A closed client makes no calls, nor does its `state`; calls in progress end."""
    state = State(server.target)
    events = state.watch_events(0)
    await take(events, 1)
    watching = asyncio.create_task(take(events, 1000))
    await asyncio.sleep(0)
    await state.close()
    with pytest.raises(Closed):
        await asyncio.wait_for(watching, PATIENCE)
    with pytest.raises(Closed):
        await state.server()
    client = Client(server.target, rm_id="rm2")
    async with client:
        await client.state.server()
    with pytest.raises(Closed):
        await client.state.server()
    with pytest.raises(Closed):
        await client.explain("k")


async def next_id(state: State) -> int:
    """The id of the next event."""
    return (await state.kept_events()).highest_id + 1


async def take(events: AsyncIterator[EventRecord], count: int) -> list[EventRecord]:
    """The next events, this number."""
    async with asyncio.timeout(PATIENCE):
        return [await anext(events) for _ in range(count)]


async def test_events_are_watched(server: Served, rm: FakeRM) -> None:
    """A watcher from the first id gets all stored events, in order, and then new ones."""
    state = rm.client.state
    kept = await state.kept_events()
    async with aclosing(state.watch_events(kept.lowest_id, instance=kept.instance)) as events:
        old = await take(events, kept.highest_id + 1 - kept.lowest_id)
        assert [event.id for event in old] == list(range(kept.lowest_id, kept.highest_id + 1))
        assert {"NODE", "APP", "QUEUE"} <= {event.type for event in old}
        await rm.add_nodes(1, prefix="new")
        [new] = await take(events, 1)
        assert (new.id, new.type, new.object_id) == (kept.highest_id + 1, "NODE", "new-1")


async def test_a_watch_continues_after_a_lost_connection(server: Served, rm: FakeRM) -> None:
    """Events during a broken connection are delivered after it, and none twice."""
    async with (
        Proxy(server.target) as proxy,
        State(proxy.target, rm_id="rm1", retry=QUICK) as state,
        aclosing(state.watch_events(await next_id(state))) as events,
    ):
        await rm.add_nodes(1, prefix="a")
        [a] = await take(events, 1)
        await proxy.cut()
        await rm.add_nodes(1, prefix="b")
        await rm.add_nodes(1, prefix="c")
        rest = [a]
        while rest[-1].object_id != "c-1":
            rest += await take(events, 1)
        assert proxy.connections > 1
    assert [event.id for event in rest] == list(range(rest[0].id, rest[0].id + len(rest)))
    assert {event.object_id for event in rest} >= {"a-1", "b-1", "c-1"}


async def test_a_watch_waits_for_its_rm_after_a_restart(server: Served) -> None:
    """A watch continues when the server, which has restarted, knows the RM again."""
    refused = 'grpc_method="WatchEvents",grpc_type="server_stream",grpc_code="NOT_FOUND"'
    async with (
        aiohttp.ClientSession() as http,
        State(server.target, rm_id="rm1", retry=QUICK) as state,
        aclosing(state.watch_events(0)) as events,
    ):
        async with FakeRM(server.target) as rm:
            await rm.add_nodes(1)
            await take(events, 1)
        await server.restart(crash=True)
        watching = asyncio.create_task(take(events, 1000))
        async with asyncio.timeout(PATIENCE):
            metrics = ""
            while refused not in metrics:
                async with http.get(f"http://{server.http}/metrics") as answer:
                    metrics = await answer.text()
        async with FakeRM(server.target):
            with pytest.raises(EventsMissed):
                await watching


async def test_lost_events_are_reported(server: Served, rm: FakeRM) -> None:
    """After a restart ids start over: the error has the id to continue from."""
    state = rm.client.state
    kept = await state.kept_events()
    async with aclosing(state.watch_events(0, instance=kept.instance)) as events:
        await take(events, 1)
        await server.restart(crash=True)
        with pytest.raises(EventsMissed, match="continue with instance") as missed:
            await take(events, 1000)
    assert missed.value.instance not in ("", kept.instance)
    with pytest.raises(EventsMissed) as missed:
        await anext(state.watch_events(10_000))
    assert missed.value.next_id < 10_000
