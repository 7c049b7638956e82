"""`queues`, `apps`, `nodes`, `users` and `explain` against a running server."""

import asyncio

import pytest
from google.protobuf import json_format
from google.protobuf.message import Message

from licorne.v1 import state_pb2
from licorne_cli.commands import main
from licorne_server.testing import FakeRM, serve
from support.patience import PATIENCE
from support.peers.town import Shell, Town


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("queues",), state_pb2.ListQueuesResponse()),
        (("nodes",), state_pb2.ListNodesResponse()),
        (("apps",), state_pb2.ListApplicationsResponse()),
        (("users",), state_pb2.ListUsageResponse()),
        (("apps", "shop"), state_pb2.Application()),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
async def test_json_output_equals_messages(town: Town, arguments: tuple[str, ...], message: Message) -> None:
    """Printed JSON can be parsed to the message that the server sent."""
    result = await town.shell(*arguments, "-o", "json")
    assert result.code == 0
    assert json_format.Parse(result.out, message).ByteSize() > 0


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (("--tls-cert", "cert.pem"), "--tls-cert and --tls-key go together"),
        (("--tls-ca", "/nonexistent/ca.pem"), "cannot read /nonexistent/ca.pem"),
    ],
)
def test_impossible_tls_options_are_usage_errors(
    arguments: tuple[str, ...], text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Impossible combinations of TLS options end with exit code 1 and the problem."""
    assert main(["queues", *arguments]) == 1
    assert text in capsys.readouterr().err


async def test_a_plain_server_is_not_reached_over_tls(town: Town) -> None:
    """With TLS on one side only the server counts as unreachable, at the latest after the timeout."""
    result = await town.shell("queues", "--tls", "--timeout", "2")
    assert result.code == 2


async def test_long_lists_are_fetched_page_by_page(capsys: pytest.CaptureFixture[str]) -> None:
    """A list that is longer than one answer of the server is printed whole."""
    names = [f"q{number:04}" for number in range(1_100)]
    config = f"partitions: [{{name: default, queues: [{{name: root, queues: {leaves(names)}}}]}}]"
    async with serve(config) as served, FakeRM(served.target, rm_id="big") as rm:
        await rm.add_nodes(1_100)
        shell = Shell(served.target, capsys)
        queues = (await shell("queues", "-o", "json")).json["queues"]
        assert [queue["path"] for queue in queues] == ["root", *(f"root.{name}" for name in names)]
        nodes = (await shell("nodes", "-o", "json")).json["nodes"]
        assert len({node["nodeId"] for node in nodes}) == len(nodes) == 1_100


def leaves(names: list[str]) -> str:
    """The YAML of leaves with these names."""
    return "[" + ", ".join(f"{{name: {name}}}" for name in names) + "]"


async def test_asks_that_are_not_printed_are_counted(town: Town) -> None:
    """Of very many asks the first are printed, and stderr has the total."""
    await town.blue.ask("shop", 1_100)
    async with asyncio.timeout(PATIENCE):
        while (result := await town.shell("apps", "shop", "-o", "json")).json["pendingAsks"] < 1_102:
            pass
    assert len(result.json["asks"]) == 1_000
    assert "the first 1,000 of 1,102 asks\n" in result.err
