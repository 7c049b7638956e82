"""Real servers whose store is a played cluster."""

import asyncio
from pathlib import Path

import pytest

from licorne_server.store.coordination.kubernetes.objects import read_member_lease, read_rm_lease
from licorne_server.store.coordination.store import Ownership
from licorne_server.testing import FakeRM
from support.coordination.api_cluster import NAMESPACE
from support.coordination.api_server import ApiServer, served
from support.coordination.kubernetes import kubeconfig
from support.coordination.members import member

LEASE = 4.0
STORE = f"kubernetes://{NAMESPACE}/test"


def found(api: ApiServer, rm_id: str) -> Ownership | None:
    """The record of an RM."""
    items = [item for (_, name), item in api.cluster.objects.items() if f".rm.{rm_id}." in name]
    return read_rm_lease(items[0]) if items else None


def addresses(api: ApiServer) -> dict[str, str]:
    """The address of each member that has not ended, by its id."""
    items = [item for (_, name), item in api.cluster.objects.items() if ".member." in name]
    leases = [read_member_lease(item, LEASE) for item in items]
    return {lease.member.id: lease.member.address for lease in leases if not lease.ended}


async def moves(api: ApiServer, rm: FakeRM, before: Ownership, killed: asyncio.subprocess.Process) -> None:
    """Kill the owner of a working RM, and check that another member serves it."""
    rm_id = before.rm_id
    await rm.submit("app")
    await rm.ask("app", 1)
    await rm.allocated(1)
    killed.kill()
    # Every renewal of the other member includes a read.
    await api.until(lambda: (found(api, rm_id) or before).owner != before.owner)
    after = found(api, rm_id)
    assert after is not None
    assert after.epoch > before.epoch
    await rm.ask("app", 1)
    await rm.allocated(2)


@pytest.mark.slow
async def test_the_rm_of_a_killed_member_is_served_by_the_other(tmp_path: Path) -> None:
    """Two members share the RMs; after kill -9 of one the other serves all, under a higher epoch."""
    api = ApiServer()
    async with served(api) as url:
        config = kubeconfig(tmp_path, url)
        async with (
            member("m-0", config, STORE, LEASE) as first,
            member("m-1", config, STORE, LEASE) as second,
        ):
            await api.until(lambda: set(addresses(api).values()) == {first.address, second.address})
            for number in range(40):
                rm_id = f"rm-{number}"
                async with FakeRM(second.address, rm_id=rm_id) as rm:
                    await rm.add_nodes(1)
                    before = found(api, rm_id)
                    assert before is not None
                    if addresses(api)[before.owner] != first.address:
                        continue
                    await moves(api, rm, before, first.process)
                    return
    raise AssertionError("no RM of 40 was given to the first member")
