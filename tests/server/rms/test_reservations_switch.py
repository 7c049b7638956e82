"""Reservations of nodes can be disabled for the whole server (spec § 2.8)."""

import pytest

from licorne_core.messages.commands import NewApplication, RegisterRm, Tick
from licorne_core.values.ids import AppId, RmId, UserGroup
from licorne_server.assembly.server import running
from licorne_server.process.settings import Settings
from support.core.builders import apps, ask, asks, node, nodes
from support.core.steps import listed
from support.peers.shim import LOOPBACK


@pytest.mark.parametrize("kept", [True, False])
async def test_reservations_can_be_disabled(kept: bool) -> None:
    """Without reservations no node is reserved for an ask that waits long."""
    settings = Settings(listen=LOOPBACK, http=None, reservations=kept)
    async with running(settings) as server:
        rm = RegisterRm(rm_id=RmId("rm"))
        tag = {"namespace": "a"}
        new = NewApplication(app_id=AppId("one"), user=UserGroup("ann"), tags=tag)
        pair = [node(f"n{number}", vcore=10) for number in (1, 2)]
        await server.engine.submit(rm)
        await server.engine.submit(nodes(*pair, rm="rm"))
        await server.engine.submit(apps(new, rm="rm"))
        small = [ask("one", f"s{number}", vcore=4, on_node=f"n{number}") for number in (1, 2)]
        large = ask("one", "large", vcore=8, created=server.engine.now() - 60)
        await server.engine.submit(asks(*small, large, rm="rm"))
        await server.engine.submit(Tick())
        (partition,) = server.scheduler.partitions
        reserved = listed(server.scheduler.views.reservations(partition))
        assert [reservation.key for reservation in reserved] == (["large"] if kept else [])
