"""The reasons why asks wait: rights, and one answer for concurrent callers."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from licorne.v1 import state_pb2 as pb
from licorne.v1.state_pb2_grpc import StateStub
from licorne_core.messages.reports import WaitingAsks
from licorne_core.values.ids import PartitionName, QueuePath
from licorne_server.assembly.server import Server
from licorne_server.http import sums as reasons_module
from licorne_server.http.sums import Reasons
from licorne_server.process.fair import TimeSlices
from licorne_server.reads.reasons import ReasonSum
from licorne_server.reads.resource_hours import HoursOwner, HoursRow
from support.core.driver import Driver
from support.peers.shim import LOOPBACK, Shim, ask, connected, eventually, serving
from support.peers.tls import Bearing

NAMES = ("mine", "others", "operator")
TOKENS = {name: f"{name}-token-of-thirty-two-characters" for name in NAMES}


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[Server]:
    """A server with two RMs, each with an ask that waits for more than its cluster has."""
    for name, token in TOKENS.items():
        (tmp_path / name).write_text(token)
    tokens = {name: (tmp_path / name,) for name in NAMES[:2]}
    operators = (tmp_path / "operator",)
    async with (
        serving(http=LOOPBACK, rm_tokens=tokens, operator_tokens=operators) as server,
        connected(server) as channel,
    ):
        for name in NAMES[:2]:
            shim = Shim(bearing(channel, name), name)
            allocations, _, _ = await shim.set_up()
            await shim.ask(allocations, ask("waits", vcore=5000))
            of = server.scheduler.views.resolve(f"[{name}]default")
            await eventually(partial(waits, server, of))
        yield server


def waits(server: Server, partition: PartitionName) -> bool:
    """True if an ask waits in the partition."""
    return server.scheduler.views.partition(partition).pending_asks == 1


def bearing(channel: Any, name: str) -> Any:
    """A channel with the token of that name."""
    return Bearing(channel, f"Bearer {TOKENS[name]}")


async def test_an_rm_sees_reasons_of_its_own_asks_only(server: Server) -> None:
    """Over gRPC, REST and for the page an RM sees its own asks, also after an operator's query."""
    async with connected(server) as channel, aiohttp.ClientSession() as client:
        for name, asks in (("operator", 2), ("mine", 1), ("others", 1)):
            answer = await StateStub(bearing(channel, name)).ListReasons(pb.ListReasonsRequest())
            assert answer.asks == asks
            places = {place.partition for one in answer.reasons for place in one.first_queues}
            assert places == {f"[{of}]default" for of in (NAMES[:2] if asks == 2 else (name,))}
            headers = {"Authorization": f"Bearer {TOKENS[name]}"}
            for path in ("/ws/v1/reasons", "/ui/api/reasons"):
                async with client.get(f"http://{server.http_address}{path}", headers=headers) as shown:
                    assert (await shown.json())["asks"] == asks
        other = f"http://{server.http_address}/ui/api/reasons?partition=[others]default"
        headers = {"Authorization": f"Bearer {TOKENS['mine']}"}
        async with client.get(other, headers=headers) as shown:
            assert (await shown.json())["asks"] == 0


async def test_an_rm_sees_its_own_resource_hours_only(server: Server) -> None:
    """Over gRPC and REST an RM sees its own resource-hours, whatever the request is."""
    for name in NAMES[:2]:
        place = HoursOwner(f"[{name}]default", "root.a", "ann", "")
        server.periodics.accounting.hours.add(0, place, HoursRow({"vcore": 1}))
    async with connected(server) as channel, aiohttp.ClientSession() as client:
        for name, rows in (("operator", set(NAMES[:2])), ("mine", {"mine"}), ("others", {"others"})):
            stub = StateStub(bearing(channel, name))
            answer = await stub.ListResourceHours(pb.ListResourceHoursRequest(by="user"))
            assert {row.partition for row in answer.rows} == {f"[{of}]default" for of in rows}
            headers = {"Authorization": f"Bearer {TOKENS[name]}"}
            url = f"http://{server.http_address}/ws/v1/resource-hours?by=user"
            async with client.get(url, headers=headers) as shown:
                found = {row["partition"] for row in (await shown.json())["rows"]}
                assert found == {f"[{of}]default" for of in rows}


async def test_concurrent_callers_share_an_answer(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """Concurrent callers share one answer, which is computed in slices of a peer of its own."""
    views, looks, go = server.scheduler.views, 0, asyncio.Event()
    read = views.reasons

    def read_when_told(partition: PartitionName) -> Iterator[WaitingAsks | None]:
        nonlocal looks
        looks += 1
        while not go.is_set():
            yield None
        yield from read(partition)

    monkeypatch.setattr(views, "reasons", read_when_told)
    reasons = Reasons(views, TimeSlices(lambda: False), lambda: 5.0)
    asking = [asyncio.ensure_future(reasons.of(PartitionName("[mine]default"))) for _ in range(3)]
    await eventually(lambda: looks)
    go.set()
    answers = [await one for one in asking]
    assert looks == 1
    assert {answer.time for answer in answers} == {5.0}


async def test_repeated_queries_share_the_answers_of_partitions(monkeypatch: pytest.MonkeyPatch) -> None:
    """Repeated queries about all partitions do not read each of them again."""
    monkeypatch.setattr(reasons_module, "CHEAP_SECONDS", 0.0)
    monkeypatch.setattr(reasons_module, "FRESH_BUDGET", 1e9)
    views, looks = Driver().views, Counter[PartitionName]()

    def read(partition: PartitionName) -> Iterator[WaitingAsks | None]:
        looks[partition] += 1
        yield row("root.a", sum(range(10_000)))

    monkeypatch.setattr(views, "reasons", read)
    reasons = Reasons(views, TimeSlices(lambda: False), lambda: 5.0)
    for _ in range(2):
        for number in range(40):
            await reasons.of(PartitionName(f"[rm{number}]default"))
    assert (len(looks), set(looks.values())) == (40, {1})


def row(queue: str, asks: int, code: str = "QUEUE_MAX_EXCEEDED") -> WaitingAsks:
    """The asks of a queue."""
    return WaitingAsks(
        queue=QueuePath(queue),
        code=code,
        subject=queue,
        asks=asks,
        resources={"vcore": asks},
        causes={},
        app_id="a",
        key="k",
    )


def test_the_queues_with_most_asks_are_listed_first() -> None:
    """Five queues are listed and all counted; a queue includes those below, but no longer names."""
    rows = [row(f"root.q{n}", 10 + n) for n in range(8)] + [row("root.q1.x", 1), row("root.q1.x", 2, "OTHER")]
    total = ReasonSum()
    assert list(total.add(PartitionName("[rm]default"), rows)) == []
    message = total.message(7)
    assert [one.code for one in message.reasons] == ["QUEUE_MAX_EXCEEDED", "OTHER"]
    assert (message.asks, message.reasons[0].queues) == (sum(range(10, 18)) + 3, 9)
    assert [one.queue for one in message.reasons[0].first_queues] == [f"root.q{n}" for n in (7, 6, 5, 4, 3)]
    part = ReasonSum("Root.Q1")
    assert list(part.add(PartitionName("[rm]default"), [*rows, row("root.q11", 5)])) == []
    assert part.message(7).asks == 11 + 1 + 2
