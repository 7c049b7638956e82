"""A rolling upgrade: members of this version beside those of the next one, under load."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from itertools import count

import pytest

from licorne_server.store.coordination.etcd import EtcdStore
from licorne_server.store.coordination.store import Snapshot
from soak.chaos import CONFIG, Balancer, Rm, agree
from soak.plain_rm import PlainRm
from soak.rm import SoakRm
from support.coordination.backends import until, watching
from support.coordination.etcd import EtcdServer
from support.server.server_process import ForkedServer
from support.server.settings_file import settings_file

pytestmark = pytest.mark.needs("etcd")

PREFIX = "upgrade"
OLD, NEW, FOREIGN = (1,), (1, 2), (9,)
"""Protocols between members: of this version, of the next one, and of a version without a common one."""
BUSY = 20
"""The maximum of allocations and asks of an RM."""
PACE = 0.05
"""Seconds between two steps of an RM."""
MOST_RMS = 40


# Members start and stop one after the other.
@pytest.mark.timeout(600)
async def test_members_of_two_versions_share_rms_while_each_is_replaced() -> None:
    """Members are replaced by newer ones under load: nothing is lost, and no RM is assigned out of
    version.
    """
    async with AsyncExitStack() as stack:
        etcd = stack.enter_context(EtcdServer())
        reader = EtcdStore(etcd.options(PREFIX))
        stack.push_async_callback(reader.close)
        flags = settings_file(coordination={"store": f"etcd://{etcd.target}/{PREFIX}", "lease": 3})
        members = [await stack.enter_async_context(ForkedServer(*flags, protocols=OLD)) for _ in range(3)]
        foreign = await stack.enter_async_context(ForkedServer(*flags, protocols=FOREIGN))
        line = await stack.enter_async_context(Balancer([member.target for member in members]))
        owners = await stack.enter_async_context(seen_owners(reader))
        rms: list[Rm] = []
        over = asyncio.Event()
        async with asyncio.TaskGroup() as group:

            async def add(rm: Rm) -> None:
                await stack.enter_async_context(rm)
                rms.append(rm)
                await rm.add_nodes(["n1", "n2"], BUSY * 100)
                await rm.submit(["app"])
                group.create_task(load(rm, over))

            await add(PlainRm(line.target, "plain", CONFIG))
            await add(SoakRm(line.target, "rm1", CONFIG))
            await add(SoakRm(line.target, "rm2", CONFIG))
            for member in members:
                placed = [(rm, rm.placed) for rm in rms]
                assert await member.stop() == 0
                member.protocols = NEW
                await member.start()
                for rm, before in placed:
                    await rm.until(partial(has_placed, rm, before + BUSY), "allocations")
                # While there are members of both versions, an RM may be served by either.
                while member is members[0] and await serving(reader) != {OLD, NEW}:
                    assert len(rms) < MOST_RMS
                    await add(SoakRm(line.target, f"rm{len(rms)}", CONFIG))
            over.set()
        assert await serving(reader) == {NEW}
        for rm in rms:
            await rm.until(partial(is_settled, rm), "allocations and releases")
            await agree(rm, members[0].target)
        assert owners
        assert foreign.target not in owners


def has_placed(rm: Rm, least: int) -> bool:
    """True if the RM has had this number of allocations."""
    return rm.placed >= least


def is_settled(rm: Rm) -> bool:
    """True if no message of the RM is in flight."""
    return not rm.waiting and not rm.ending


async def load(rm: Rm, over: asyncio.Event) -> None:
    """Submit asks and release allocations without end, so that messages are always in flight."""
    numbers = count()
    while not over.is_set():
        asked = len(rm.running) + len(rm.waiting)
        if asked < BUSY:
            await rm.ask("app", [f"app-{next(numbers)}" for _ in range(BUSY - asked)])
        await rm.release([key for key in list(rm.running)[: BUSY // 4] if key not in rm.ending])
        await asyncio.sleep(PACE)


async def serving(reader: EtcdStore) -> set[tuple[int, ...]]:
    """The protocols of the members that serve RMs, once each RM has an owner."""

    def all_owned(snapshot: Snapshot) -> bool:
        return all(record.owner in snapshot.members for record in snapshot.rms.values())

    async with watching(reader) as snapshots:
        snapshot = await until(snapshots, all_owned)
    return {snapshot.members[record.owner].protocols for record in snapshot.rms.values()}


@asynccontextmanager
async def seen_owners(reader: EtcdStore) -> AsyncIterator[set[str]]:
    """The addresses of all owners while the block runs."""
    owners: set[str] = set()

    async def look() -> None:
        async with watching(reader) as snapshots:
            async for snapshot in snapshots:
                living = (snapshot.members.get(record.owner) for record in snapshot.rms.values())
                owners.update(member.address for member in living if member is not None)

    looks = asyncio.create_task(look())
    try:
        yield owners
    finally:
        looks.cancel()
        await asyncio.gather(looks, return_exceptions=True)
