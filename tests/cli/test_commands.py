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


async def test_one_queue_and_those_below_it(town: Town) -> None:
    """A name picks a subtree, not whatever begins with the same letters."""
    result = await town.shell("queues", "root.prod", "-o", "json")
    assert [queue["path"] for queue in result.json["queues"]] == ["root.prod"]
    assert (await town.shell("queues", "root.pro")).code == 3


@pytest.mark.row(158)
async def test_users(capsys: pytest.CaptureFixture[str]) -> None:
    """Each queue in which a user or a group counts is a line, with its limit."""
    limits = "[{limit: x, users: ['*'], groups: [dev], maxresources: {vcore: 3}}]"
    queues = "[{name: root, submitacl: '*', queues: [{name: a}, {name: b}]}]"
    config = f"partitions: [{{name: default, limits: {limits}, queues: {queues}}}]"
    async with serve(config) as served, FakeRM(served.target, rm_id="big") as rm:
        await rm.add_nodes(1)
        await rm.submit("one", queue="root.a", user="ann", groups=("dev",))
        await rm.submit("two", queue="root.b", user="ann")
        await rm.submit("three", queue="root.b", user="bob")
        await rm.ask("one", 1)
        await rm.ask("three", 1)
        await rm.allocated(2)
        shell = Shell(served.target, capsys)
        assert (await shell("users")).rows == [
            ["USER", "QUEUE", "RUNNING", "ALLOCATED", "MAX"],
            ["ann", "root", "1", "memory=1Gi,vcore=1", "vcore=3"],
            ["ann", "root.a", "1", "memory=1Gi,vcore=1", "-"],
            ["ann", "root.b", "0", "-", "-"],
            ["bob", "root", "1", "memory=1Gi,vcore=1", "vcore=3"],
            ["bob", "root.b", "1", "memory=1Gi,vcore=1", "-"],
        ]
        assert [row[0] for row in (await shell("users", "bob")).rows] == ["USER", "bob", "bob"]
        groups = await shell("users", "--groups")
        assert [row[:3] for row in groups.rows] == [
            ["GROUP", "QUEUE", "RUNNING"],
            ["dev", "root", "1"],
            ["dev", "root.a", "1"],
        ]
        [dev] = (await shell("users", "dev", "--groups", "-o", "json")).json["usages"]
        assert dev["applicationGroups"] == {"one": "dev"}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("queues",), state_pb2.ListQueuesResponse()),
        (("nodes",), state_pb2.ListNodesResponse()),
        (("apps",), state_pb2.ListApplicationsResponse()),
        (("users",), state_pb2.ListUsageResponse()),
        (("apps", "shop"), state_pb2.Application()),
        (("explain", "shop"), state_pb2.ExplainResponse()),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
async def test_json_is_that_of_the_messages(town: Town, arguments: tuple[str, ...], message: Message) -> None:
    """The printed JSON can be parsed to the message that the server sent."""
    result = await town.shell(*arguments, "-o", "json")
    assert result.code == 0
    assert json_format.Parse(result.out, message).ByteSize() > 0


async def test_explain_counts_why_nodes_are_out(town: Town) -> None:
    """Nodes that cannot host the ask are counted by cause, below the checks."""
    await town.blue.ask("idle", 1, vcore=9_000)
    async with asyncio.timeout(PATIENCE):
        while (result := await town.shell("explain", "idle")).code:
            pass
    assert result.rows[-3:] == [[], ["NODES", "OUT", "BECAUSE"], ["2", "full:", "vcore"]]


async def test_explain_tells_where_an_allocation_is(town: Town) -> None:
    """An ask that was placed is no riddle."""
    key, node = next(iter(town.blue.allocations.items()))
    result = await town.shell("explain", "shop", key)
    assert result.out.splitlines()[0] == f"shop/{key} in root.prod: allocated"
    assert node in result.out


async def test_without_a_partition_the_first_one_is_meant_and_named(town: Town) -> None:
    """The chosen partition is named on stderr, where it disturbs no pipe; a named one needs no note."""
    result = await town.shell("nodes")
    assert result.err == "partition [blue]default (others: [green]default)\n"
    other = await town.shell("nodes", "--partition", "[green]default")
    assert other.err == ""
    assert other.rows[1][0] == "meadow-1"


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
    """The command exits with code 1, and prints the problem."""
    assert main(["queues", *arguments]) == 1
    assert text in capsys.readouterr().err


async def test_a_plain_server_is_not_reached_over_tls(town: Town) -> None:
    """TLS on one side only is an unreachable server, after the timeout at the latest."""
    result = await town.shell("queues", "--tls", "--timeout", "2")
    assert result.code == 2


async def test_long_lists_are_shown_whole(capsys: pytest.CaptureFixture[str]) -> None:
    """More than fits in one answer of the server is fetched page by page."""
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
    """Queues with these names, in YAML."""
    return "[" + ", ".join(f"{{name: {name}}}" for name in names) + "]"


async def test_what_an_app_does_not_show_is_counted(town: Town) -> None:
    """Of very many asks the first are printed, and stderr has the total."""
    await town.blue.ask("shop", 1_100)
    async with asyncio.timeout(PATIENCE):
        while (result := await town.shell("apps", "shop", "-o", "json")).json["pendingAsks"] < 1_102:
            pass
    assert len(result.json["asks"]) == 1_000
    assert "the first 1,000 of 1,102 asks\n" in result.err
