"""Keeping nodes for asks that wait long can be switched off for the whole server (spec § 2.8)."""

import pytest

from licorne_cli.commands import parser_for
from licorne_core.messages.commands import NewApplication, RegisterRm, Tick
from licorne_core.values.ids import AppId, RmId, UserGroup
from licorne_server.assembly.server import running
from licorne_server.commands.serve_options import settings_of
from support.core.builders import apps, ask, asks, node, nodes
from support.core.steps import listed


@pytest.mark.parametrize(
    ("environment", "arguments", "kept"),
    [
        ({}, [], True),
        ({"DISABLE_RESERVATION": "True"}, [], False),
        ({"DISABLE_RESERVATION": "true"}, ["--reservations"], True),
        ({"DISABLE_RESERVATION": "no"}, ["--no-reservations"], False),
    ],
)
async def test_reservations_can_be_switched_off(
    environment: dict[str, str], arguments: list[str], kept: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By an option, or without it by the environment."""
    monkeypatch.delenv("DISABLE_RESERVATION", raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    settings = settings_of(
        parser_for("serve").parse_args(["serve", "--listen", "127.0.0.1:0", "--http", "off", *arguments])
    )
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
