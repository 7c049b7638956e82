"""A fake RM against a running server, started as in the compose file."""

import asyncio
import signal
import sys
from itertools import islice

import pytest

from licorne_server.lab.demo.world import endless, worlds
from licorne_server.testing import serve
from support.patience import PATIENCE


@pytest.mark.slow
async def test_a_fake_rm_works_until_a_signal() -> None:
    """Nodes and applications exist under the given name, and SIGTERM ends the fake RM with success."""
    async with serve() as served:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "licorne_server", "fake-rm", "--target", served.target),
            *("--rm-id", "rm7", "--world", "services", "--round", "2"),
            stderr=asyncio.subprocess.PIPE,
        )
        assert process.stderr is not None
        try:
            async with asyncio.timeout(PATIENCE):
                hello = await process.stderr.readline()
                while (await process.stderr.readline()).startswith(b"rm7: 0 placed"):
                    pass
                [partition] = served.views.partitions()
                process.send_signal(signal.SIGTERM)
                rest = await process.stderr.read()
                await process.wait()
        finally:
            if process.returncode is None:
                process.kill()
    assert hello.decode() == f"rm7: plays services against {served.target}; Ctrl-C ends it\n"
    assert partition.name == "[rm7]default"
    assert partition.nodes == 30
    assert partition.allocations > 0
    assert process.returncode == 0
    assert rest.decode().endswith("rm7: stopped\n")


def test_every_round_submits_the_same_work_under_other_names() -> None:
    """Times keep rising, and no application or key is repeated."""
    [world] = [world for world in worlds() if world.rm_id == "batch"]
    length = len(world.submissions)
    standing, *work = islice(endless(world), 1 + 3 * length)
    assert standing == world.standing[0]
    assert [item.at for item in work] == sorted(item.at for item in work)
    assert len({item.application.application_id for item in work}) == 3 * length
    keys = [ask.key for item in work for ask in item.asks]
    assert len(keys) == len(set(keys)) == 3 * world.asks
    assert work[length].at == world.submissions[0].at + 1
