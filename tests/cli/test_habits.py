"""Habits and mistakes of users: each is understood, or answered in words."""

import logging
from pathlib import Path

import pytest

from licorne.connection import NO_CONNECTION
from licorne_cli.commands import main, parser_for
from licorne_server.commands.serve_options import settings_of
from licorne_server.lab.commands import fake_rm
from licorne_server.process.settings import Address, SettingsError
from support.peers.shim import LOOPBACK, serving
from support.peers.town import Shell, Town


def test_a_host_alone_has_the_usual_ports() -> None:
    """`--listen 0.0.0.0 --http ::1` needs no ports, as `--target` needs none."""
    parser = parser_for("serve")
    settings = settings_of(parser.parse_line(["serve", "--listen", "0.0.0.0", "--http", "[::1]"]))
    assert (str(settings.listen), str(settings.http)) == ("0.0.0.0:7070", "[::1]:9080")
    with pytest.raises(SettingsError, match="HOST:PORT was expected"):
        Address.parse("127.0.0.1")


def test_an_unknown_key_is_reported_without_its_consequences(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A key that is similar to a missing one stands for it: the missing key is not reported as well."""
    file = tmp_path / "queues.yaml"
    file.write_text("partitions: [{name: default, queue: [{name: root}]}]")
    assert main(["validate-config", str(file)]) == 4
    [problem] = capsys.readouterr().out.splitlines()
    assert problem.endswith("unknown key 'queue', did you mean 'queues'?")


async def test_the_http_port_is_not_that_of_grpc(capsys: pytest.CaptureFixture[str]) -> None:
    """A command that connects to the HTTP port names the usual port of gRPC."""
    async with serving(http=LOOPBACK) as server:
        result = await Shell(server.http_address, capsys)("queues")
    assert (result.code, result.err) == (
        2,
        f"licorne: cannot reach {server.http_address}: this is an HTTP port; that of gRPC is usually 7070\n",
    )


async def test_an_application_that_waits_for_nothing_is_explained(town: Town) -> None:
    """An application without waiting asks is explained with exit code 0; unknown names are not found."""
    await town.blue.submit("calm", queue="root.dev")
    await town.blue.ask("calm", 2)
    await town.blue.allocated(6)
    for words in (("calm",), ("calm", "--rm", "blue", "--partition", "default")):
        explained = await town.shell("explain", *words)
        assert (explained.code, explained.out) == (
            0,
            "calm in root.dev: running\nnothing waits, 2 run\n",
        )
    assert (await town.shell("explain", "calm", "-o", "json")).json["summary"] == "nothing waits, 2 run"
    assert (await town.shell("explain", "calm", "calm-9")).code == 3
    assert (await town.shell("explain", "nobody")).code == 3


def test_a_lost_connection_is_said_in_short() -> None:
    """A fake RM without a server gives the system's reason alone."""
    long = "failed to connect to all addresses; last error: UNKNOWN: ipv4:127.0.0.1:7070: "
    args = ("127.0.0.1:7070", f"{long}Failed to connect to remote host: Connection refused")
    record = logging.LogRecord("licorne", logging.WARNING, "", 0, NO_CONNECTION, args, None)
    assert fake_rm.shortened(record)
    assert record.getMessage() == "no connection to 127.0.0.1:7070: Connection refused"
