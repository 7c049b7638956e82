"""The `kubernetes` store on a real API server: members that die, and a server that refuses or hangs.

These tests have a control plane of their own, because they stop it.
"""

import asyncio
import json
import re
import signal
import ssl
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import AsyncExitStack, aclosing, asynccontextmanager
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from urllib.parse import urlsplit

import pytest
import pytest_asyncio

from licorne_server.store.coordination.kubernetes import KubernetesStore
from licorne_server.store.coordination.kubernetes.access import ClusterAccess
from licorne_server.store.coordination.kubernetes.api import LEASES, Api, Expired
from licorne_server.store.coordination.kubernetes.objects import (
    DEPLOYMENT,
    KIND,
    read_member_lease,
    read_rm_lease,
)
from licorne_server.store.coordination.store import LeaseLost, MemberId, Ownership
from licorne_server.store.documents.documents import Conflict, StoreError
from licorne_server.testing import FakeRM
from licorne_tools.bench.etcd import free_ports
from licorne_tools.kube.api import ApiRefused, Json
from licorne_tools.kube.plane import Plane, PlaneOptions, running_plane
from licorne_tools.kube.programs import API_SERVER
from support.coordination.backends import insisted, rm, until, watching
from support.coordination.backends import member as a_member
from support.coordination.kubernetes import KubernetesBackend
from support.coordination.members import Running, member
from support.kube.charts import ACCOUNT, account_of_members, restricted_namespace
from support.kube.etcd import compact
from support.patience import PATIENCE

pytestmark = [pytest.mark.kube, pytest.mark.asyncio(loop_scope="module")]

A = a_member("a")
ONE = rm("one")
LEASE = 4.0
AFTER_LEASE = 3.0
"""Seconds after the lease within which an RM is served again, as in docs/high-availability.md: 18 with 15."""
LONG_LEASE = 240.0
"""Seconds of a lease that is much longer than a restart of the API server."""
SLOTS = 2
"""Writes that the API server carries out at the same time."""


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def alone() -> AsyncIterator[Plane]:
    """An API server that accepts few writes at a time, without controllers."""
    flags = ["--enable-priority-and-fairness=false", f"--max-mutating-requests-inflight={SLOTS}"]
    async with running_plane(PlaneOptions(flags={API_SERVER: flags}, controllers=False)) as running:
        yield running


@dataclass(frozen=True, slots=True)
class Place:
    """A namespace, and the kubeconfig of the chart's account in it."""

    plane: Plane
    namespace: str
    config: Path

    @property
    def leases(self) -> str:
        """The path of the namespace's Leases."""
        return f"/apis/coordination.k8s.io/v1/namespaces/{self.namespace}/leases"

    @property
    def store(self) -> str:
        """The store of members in the namespace, under the name for which the chart's account has rights."""
        return f"kubernetes://{self.namespace}/{ACCOUNT}"

    def open(self, lease: float) -> KubernetesStore:
        """Open the store as one more member."""
        return KubernetesBackend(self.config, self.namespace).open(lease, name=ACCOUNT)

    async def until(self, kind: str, holds: Callable[[list[Json]], object]) -> list[Json]:
        """Follow the Leases of a kind until the condition holds; returns the changes up to then."""
        seen: list[Json] = []
        labels = f"{DEPLOYMENT}={ACCOUNT},{KIND}={kind}"
        async with asyncio.timeout(PATIENCE), aclosing(self.changes(labels)) as changes:
            async for item in changes:
                seen.append(item)
                if holds(seen):
                    return seen
        raise AssertionError("the watch has ended")

    async def changes(self, labels: str, version: str = "0") -> AsyncGenerator[Json, None]:
        """The present Leases, followed by their changes."""
        watch = self.plane.api.watch(self.leases, labelSelector=labels, resourceVersion=version)
        async with aclosing(watch) as changes:
            async for _, item in changes:
                yield item

    async def record(self, rm_id: str) -> Ownership:
        """The record of an RM."""
        found = await self.plane.api.get(self.leases, labelSelector=f"{DEPLOYMENT}={ACCOUNT},{KIND}=rm")
        [record] = [one for one in map(read_rm_lease, found["items"]) if one.rm_id == rm_id]
        return record


NUMBERS = count()


@pytest_asyncio.fixture(loop_scope="module")
async def place(alone: Plane, tmp_path: Path) -> AsyncIterator[Place]:
    """A namespace of the test."""
    async with restricted_namespace(alone, f"store-{next(NUMBERS)}") as name:
        yield Place(alone, name, await account_of_members(alone, name, tmp_path))


@asynccontextmanager
async def pair(place: Place, lease: float) -> AsyncIterator[tuple[Running, Running, FakeRM]]:
    """Two members, and an RM that works and belongs to the first of them."""
    one, other = (f"127.0.0.1:{port}" for port in free_ports(2))

    async def start(name: str, address: str) -> Running:
        started = member(name, place.config, place.store, lease, listen=address)
        return await members.enter_async_context(started)

    async with AsyncExitStack() as members:
        first = await start("m-0", one)
        async with FakeRM(f"{one},{other}", rm_id="one", patience=PATIENCE) as rm:
            await rm.add_nodes(2)
            await rm.submit("app")
            await rm.ask("app", 1)
            await rm.allocated(1)
            second = await start("m-1", other)
            await place.until("member", lambda seen: len(set(map(member_of, seen))) == 2)
            yield first, second, rm


def member_of(item: Json) -> MemberId:
    """The id of the member with this Lease."""
    return read_member_lease(item, LEASE).member.id


async def renewals_until_moved(place: Place, before: Ownership) -> int:
    """Follow all Leases until the RM has another owner; returns the number of that member's renewals."""
    renewed: list[MemberId] = []
    found = await place.plane.api.get(place.leases)
    version = found["metadata"]["resourceVersion"]
    changes = place.changes(f"{DEPLOYMENT}={ACCOUNT}", version)
    async with asyncio.timeout(PATIENCE), aclosing(changes):
        async for item in changes:
            if item["metadata"]["labels"][KIND] == "member":
                renewed.append(member_of(item))
            elif (record := read_rm_lease(item)).owner not in ("", before.owner):
                assert record.epoch > before.epoch
                return renewed.count(record.owner)
    raise AssertionError("the watch has ended")


async def test_the_rm_of_a_killed_member_is_served_in_time(place: Place) -> None:
    """After kill -9 the other member serves, under a higher epoch, a lease and some seconds later.

    The time is counted in its renewals, one a second, so that a slow machine does not matter.
    """
    async with pair(place, LEASE) as (first, _, rm):
        before = await place.record("one")
        first.process.kill()
        renewals = await renewals_until_moved(place, before)
        # The other member claims the RM when the RM calls it, a second later at most.
        assert renewals <= 2 * (LEASE + AFTER_LEASE), renewals
        await rm.ask("app", 1)
        await rm.allocated(2)


async def test_an_rm_of_a_dead_member_is_served_after_an_outage(place: Place) -> None:
    """During the outage no member takes over; afterwards each has a whole lease, and then serves the RM."""
    async with pair(place, LEASE) as (first, _, rm):
        before = await place.record("one")
        place.plane.processes.signal(API_SERVER, signal.SIGSTOP)
        first.process.kill()
        await first.process.wait()
        place.plane.processes.signal(API_SERVER, signal.SIGCONT)
        renewals = await renewals_until_moved(place, before)
        assert renewals <= 2 * (LEASE + AFTER_LEASE), renewals
        await rm.ask("app", 1)
        await rm.allocated(2)


async def test_members_survive_a_restart_of_the_api_server(place: Place) -> None:
    """Members decide in an outage, and keep their RMs, even if etcd has lost its revisions."""
    async with pair(place, LONG_LEASE) as (_, _, rm):
        before = await place.record("one")
        await place.plane.processes.stop(API_SERVER, kill=True)
        await rm.ask("app", 1)
        await rm.allocated(2)
        await compact(place.plane)
        await place.plane.processes.restart(API_SERVER)
        seen: dict[MemberId, set[str]] = {}

        def both_renew(changes: list[Json]) -> bool:
            item = changes[-1]
            seen.setdefault(member_of(item), set()).add(item["metadata"]["resourceVersion"])
            return [len(versions) > 1 for versions in seen.values()] == [True, True]

        await place.until("member", both_renew)
        assert await place.record("one") == before
        await rm.ask("app", 1)
        await rm.allocated(3)


async def test_versions_that_etcd_has_dropped_are_expired(place: Place) -> None:
    """Watches and pages from before end with 410, after which a member lists again."""
    store = place.open(LONG_LEASE)
    await store.join(A)
    await store.claim(ONE, A.id, None, 0)
    old = await place.plane.api.get(place.leases, limit="1")
    version, token = old["metadata"]["resourceVersion"], old["metadata"]["continue"]
    # The last version before a compaction can still be read.
    await store.renew(A)
    async with watching(store) as snapshots:
        await until(snapshots, lambda seen: ONE in seen.rms)
        await place.plane.processes.stop(API_SERVER, kill=True)
        await compact(place.plane)
        await place.plane.processes.restart(API_SERVER)
        with pytest.raises(ApiRefused) as refused:
            await place.plane.api.get(place.leases, **{"continue": token})
        assert (refused.value.status, refused.value.reason) == (410, "Expired")
        access = ClusterAccess(environ={"KUBECONFIG": str(place.config)})
        api = Api(access, place.namespace, PATIENCE)
        with pytest.raises(Expired, match="too old resource version"):
            await api.watch(LEASES, f"{DEPLOYMENT}={ACCOUNT}", version, PATIENCE, lambda *_: None)
        await api.close()
        two = await insisted(lambda: store.claim(rm("two"), A.id, None, 0))
        await until(snapshots, lambda seen: seen.rms.get(rm("two")) == two)
    await store.close()


async def test_a_throttled_write_is_repeated(place: Place) -> None:
    """After 429, which means that nothing was done, the write waits and then has its effect."""
    store = place.open(LONG_LEASE)
    await store.join(A)
    async with writes_held(place):
        before = await throttled(place.plane)
        write = asyncio.ensure_future(store.compare_and_set("shared/one", b"1", 0))
        async with asyncio.timeout(PATIENCE):
            while await throttled(place.plane) == before:
                assert not write.done()
        # A read is no write.
        assert (await store.read("shared/one")).revision == 0
    revision = await write
    assert (await store.read("shared/one")).revision == revision
    await store.close()


@asynccontextmanager
async def writes_held(place: Place) -> AsyncIterator[None]:
    """Fill the slots of the API server with writes whose bodies do not end.

    They use the account, as administrators are exempt.
    """
    parts = urlsplit(place.plane.url)
    token = json.loads(place.config.read_text())["users"][0]["user"]["token"]
    trusted = ssl.create_default_context(cafile=str(place.plane.authority))
    head = f"POST {place.leases} HTTP/1.1\r\nHost: {parts.netloc}\r\nAuthorization: Bearer {token}\r\n"
    head += "Content-Type: application/json\r\nContent-Length: 1000\r\n\r\n{"
    writers = []
    for _ in range(SLOTS):
        _, writer = await asyncio.open_connection(parts.hostname, parts.port, ssl=trusted)
        writer.write(head.encode())
        await writer.drain()
        writers.append(writer)
    try:
        async with asyncio.timeout(PATIENCE):
            while await in_flight(place.plane) < SLOTS:
                pass
        yield
    finally:
        for writer in writers:
            writer.transport.abort()


async def in_flight(plane: Plane) -> float:
    """The number of writes that the API server is processing."""
    return await metric(plane, r'^apiserver_current_inflight_requests\{request_kind="mutating"\} (\S+)$')


async def throttled(plane: Plane) -> float:
    """The number of requests that the API server has answered with 429 so far."""
    return await metric(plane, r'^apiserver_request_terminations_total\{code="429",.*\} (\S+)$')


async def metric(plane: Plane, pattern: str) -> float:
    """The total of the matching samples."""
    return sum(map(float, re.findall(pattern, await plane.api.text("/metrics"), re.MULTILINE)))


async def test_a_late_renewal_is_recognized_as_its_own(place: Place) -> None:
    """A call ends before a hanging server processes it late, and the next renewal continues."""
    store = place.open(LEASE)
    await store.join(A)
    place.plane.processes.signal(API_SERVER, signal.SIGSTOP)
    try:
        with pytest.raises(StoreError, match=r"did not answer within 1\.0 s"):
            await store.renew(A)
    finally:
        place.plane.processes.signal(API_SERVER, signal.SIGCONT)
    for _ in range(2):
        await insisted(lambda: store.renew(A))
    await store.close()


async def test_a_deleted_lease_is_never_created_by_an_update(place: Place) -> None:
    """The API server would create it; a member whose Lease was deleted has lost it."""
    store = place.open(LONG_LEASE)
    await store.join(A)
    claimed = await store.claim(ONE, A.id, None, 0)
    deleted = await place.plane.api.get(place.leases)
    for item in deleted["items"]:
        await place.plane.api.delete(f"{place.leases}/{item['metadata']['name']}")
    with pytest.raises(Conflict):
        await store.release(claimed)
    with pytest.raises(LeaseLost):
        await store.renew(A)
    assert (await place.plane.api.get(place.leases))["items"] == []
    await store.close()


async def test_a_missing_namespace_is_named(place: Place) -> None:
    """The error of a member in a missing namespace names it."""
    store = KubernetesBackend(place.plane.kubeconfig, "nowhere").open()
    with pytest.raises(StoreError, match='namespaces "nowhere" not found'):
        await store.join(A)
    await store.close()
