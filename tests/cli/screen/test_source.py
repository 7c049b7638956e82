"""The calls for a snapshot, and the parts of their answers in it."""

import asyncio
from argparse import Namespace
from collections import Counter
from collections.abc import Iterator
from typing import Any

import grpc
import pytest

from licorne.v1.state_pb2_grpc import StateStub
from licorne_cli.failures import NotFoundError
from licorne_cli.screen.source import Source
from licorne_cli.screen.top import partitions_looked_at
from licorne_cli.screen.tree import Opened, Snapshot, totals
from support.peers.town import Town

PROD = Opened(partition="[blue]default", path="root.prod")


class Counting(grpc.UnaryUnaryClientInterceptor):
    """Counts the calls of each method, and for queues those of each partition."""

    def __init__(self) -> None:
        """Start without calls."""
        self.calls: Counter[str] = Counter()

    def intercept_unary_unary(self, continuation: Any, client_call_details: Any, request: Any) -> Any:
        """Count a call."""
        method = client_call_details.method.rpartition("/")[2]
        self.calls[f"{method} {getattr(request, 'partition', '')}".rstrip()] += 1
        return continuation(client_call_details, request)


@pytest.fixture
def counting() -> Counting:
    """An interceptor that counts calls."""
    return Counting()


@pytest.fixture
def stub(town: Town, counting: Counting) -> Iterator[StateStub]:
    """A stub whose calls are counted."""
    with grpc.insecure_channel(town.shell.target) as channel:
        yield StateStub(grpc.intercept_channel(channel, counting))


async def look(source: Source, opened: Opened | None = None) -> Snapshot:
    """Take a snapshot in a thread, because the server runs in the loop of the test."""
    return await asyncio.to_thread(source.look, opened)


async def test_a_snapshot_calls_for_each_list_once(stub: StateStub, counting: Counting) -> None:
    """A snapshot does not list nodes or applications, however many there are."""
    snapshot = await look(Source(stub, 30.0))
    assert counting.calls == {
        "ListRms": 1,
        "ListPartitions": 1,
        "ListQueues [blue]default": 1,
        "ListQueues [green]default": 1,
    }
    assert totals(snapshot) == "3 nodes, 4 allocations, 2 asks waiting"
    assert [cluster.rm and cluster.rm.connected for cluster in snapshot.clusters] == [True, True]


async def test_a_named_partition_is_the_only_one_read(stub: StateStub, counting: Counting) -> None:
    """Only the queues of the named partition are read, and a missing partition is reported."""
    source = Source(stub, 30.0, lambda: partitions_looked_at(stub, wanted))
    wanted = Namespace(timeout=30.0, rm_id="", partition="[green]default", token=None, tls_cert=None)
    snapshot = await look(source)
    assert [cluster.name for cluster in snapshot.clusters] == ["[green]default"]
    assert "ListQueues [blue]default" not in counting.calls
    wanted.partition = "nosuch"
    with pytest.raises(NotFoundError, match='no partition "nosuch"; there are: '):
        await look(source)


async def test_an_opened_queue_reads_its_applications(stub: StateStub, counting: Counting) -> None:
    """An opened queue needs calls for its applications and one explanation, and for no other partition."""
    source = Source(stub, 30.0)
    await look(source)
    counting.calls.clear()
    snapshot = await look(source, PROD)
    assert counting.calls == {
        "ListRms": 1,
        "ListPartitions": 1,
        "ListQueues [blue]default": 1,
        "ListApplications [blue]default": 1,
        "Explain [blue]default": 1,
    }
    assert [len(cluster.queues) for cluster in snapshot.clusters] == [3, 3]
    assert snapshot.inside is not None
    assert [app.application_id for app in snapshot.inside.applications] == ["shop"]
    assert snapshot.inside.explanation is not None
    assert snapshot.inside.explanation.verdict == "pending"


@pytest.mark.parametrize(
    "opened",
    [
        Opened(partition="[blue]default", path="root.dev"),
        Opened(partition="[blue]default", path="root.prod", application="gone"),
    ],
)
async def test_a_queue_without_waiting_asks_has_no_explanation(
    stub: StateStub, counting: Counting, opened: Opened
) -> None:
    """There is no explanation for a queue without waiting asks, or for a removed application."""
    snapshot = await look(Source(stub, 30.0), opened)
    assert snapshot.inside is not None
    assert snapshot.inside.explanation is None
    assert "Explain [blue]default" not in counting.calls


async def test_a_removed_queue_is_read_as_empty(stub: StateStub) -> None:
    """An opened queue that was removed is empty, and the snapshot succeeds."""
    gone = Opened(partition="[blue]default", path="root.gone")
    snapshot = await look(Source(stub, 30.0), gone)
    assert snapshot.inside is None
    assert len(snapshot.clusters) == 2
