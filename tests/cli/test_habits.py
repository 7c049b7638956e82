"""Habits and mistakes of users, which are accepted or explained."""

import logging

import pytest

from licorne.connection import NO_CONNECTION
from licorne_cli.commands import parser_for
from licorne_server.commands.serve_options import settings_of
from licorne_server.lab.commands import fake_rm
from licorne_server.process.settings import Address, SettingsError
from support.peers.shim import LOOPBACK, serving
from support.peers.town import Shell


def test_addresses_may_omit_the_usual_ports() -> None:
    """`--listen 0.0.0.0 --http ::1` needs no ports, and neither does `--target`."""
    parser = parser_for("serve")
    settings = settings_of(parser.parse_line(["serve", "--listen", "0.0.0.0", "--http", "[::1]"]))
    assert (str(settings.listen), str(settings.http)) == ("0.0.0.0:7070", "[::1]:9080")
    with pytest.raises(SettingsError, match="HOST:PORT was expected"):
        Address.parse("127.0.0.1")


async def test_a_command_to_the_http_port_names_that_of_grpc(capsys: pytest.CaptureFixture[str]) -> None:
    """A command that connects to the HTTP port names the usual port of gRPC."""
    async with serving(http=LOOPBACK) as server:
        result = await Shell(server.http_address, capsys)("queues")
    assert (result.code, result.err) == (
        2,
        f"licorne: cannot reach {server.http_address}: this is an HTTP port; that of gRPC is usually 7070\n",
    )


def test_a_fake_rm_without_a_server_prints_a_short_reason() -> None:
    """A fake RM without a server prints only the reason of the operating system."""
    long = "failed to connect to all addresses; last error: UNKNOWN: ipv4:127.0.0.1:7070: "
    args = ("127.0.0.1:7070", f"{long}Failed to connect to remote host: Connection refused")
    record = logging.LogRecord("licorne", logging.WARNING, "", 0, NO_CONNECTION, args, None)
    assert fake_rm.shortened(record)
    assert record.getMessage() == "no connection to 127.0.0.1:7070: Connection refused"
