"""A store that has lost all data, while its members live."""

import signal

import pytest

from soak.chaos import CONFIG, agree
from soak.rm import SoakRm
from support.coordination.etcd import EtcdServer
from support.server.server_process import ForkedServer
from support.server.settings_file import settings_file

pytestmark = pytest.mark.needs("etcd")


async def test_members_know_each_other_after_their_store_was_wiped() -> None:
    """A member creates a new secret, and all members use it; each answers for the RMs of others."""
    with EtcdServer() as etcd:
        flags = settings_file(coordination={"store": f"etcd://{etcd.target}/wiped", "lease": 3})
        async with (
            ForkedServer(*flags) as one,
            ForkedServer(*flags) as other,
            SoakRm(one.target, "rm1", CONFIG) as rm,
        ):
            await rm.add_nodes(["n1"], 1_000)
            await rm.submit(["a"])
            await rm.ask("a", ["a-1"])
            await rm.all_run()
            epoch = rm.epoch
            await other.kill()
            one.send(signal.SIGSTOP)
            etcd.wipe()
            await other.start()
            one.send(signal.SIGCONT)
            for member in (one, other):
                await agree(rm, member.target)
            await rm.ask("a", ["a-2"])
            await rm.all_run()
            assert rm.epoch >= epoch
