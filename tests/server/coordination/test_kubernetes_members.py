"""Real servers whose store is a played cluster."""

import asyncio
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from licorne_server.coordination.kubernetes.objects import read_member_lease, read_rm_lease
from licorne_server.coordination.store import Ownership
from licorne_server.testing import FakeRM
from support.coordination.api_cluster import NAMESPACE
from support.coordination.api_server import ApiServer, served
from support.coordination.kubernetes import kubeconfig
from support.patience import PATIENCE

LEASE = 4.0


@asynccontextmanager
async def member(name: str, config: Path) -> AsyncIterator[tuple[asyncio.subprocess.Process, str]]:
    """A server that is a member, and its address. It may be killed before the end."""
    flags = ["--listen", "127.0.0.1:0", "--http", "off", "--coordination", f"kubernetes://{NAMESPACE}/test"]
    flags += ["--lease", str(LEASE), "--member-name", name]
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "licorne_server", "serve", *flags),
        env={**os.environ, "KUBECONFIG": str(config)},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
    )
    try:
        assert process.stdout is not None
        async with asyncio.timeout(PATIENCE):
            words = dict(word.split("=") for word in (await process.stdout.readline()).decode().split()[1:])
        yield process, words["grpc"]
    finally:
        if process.returncode is None:
            process.terminate()
        await process.wait()


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
    """Kill the owner of an RM that works: another member goes on with it."""
    rm_id = before.rm_id
    await rm.submit("app")
    await rm.ask("app", 1)
    await rm.allocated(1)
    killed.kill()
    # Every renewal of the other member is a look.
    await api.until(lambda: (found(api, rm_id) or before).owner != before.owner)
    after = found(api, rm_id)
    assert after is not None
    assert after.epoch > before.epoch
    await rm.ask("app", 1)
    await rm.allocated(2)


@pytest.mark.slow
async def test_the_rm_of_a_killed_member_is_served_by_the_other(tmp_path: Path) -> None:
    """Two members share the RMs; after kill -9 the other one serves, under a higher epoch."""
    api = ApiServer()
    async with served(api) as url:
        config = kubeconfig(tmp_path, url)
        async with member("m-0", config) as (killed, first), member("m-1", config) as (_, second):
            await api.until(lambda: set(addresses(api).values()) == {first, second})
            for number in range(40):
                rm_id = f"rm-{number}"
                async with FakeRM(second, rm_id=rm_id) as rm:
                    await rm.add_nodes(1)
                    before = found(api, rm_id)
                    assert before is not None
                    if addresses(api)[before.owner] != first:
                        continue
                    await moves(api, rm, before, killed)
                    return
    raise AssertionError("no RM of 40 was given to the first member")
