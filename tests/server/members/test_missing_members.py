"""Output for people and programs when a member has not answered."""

import logging
from collections.abc import AsyncIterator

import pytest

from licorne import State
from licorne_server.assembly.server import Server
from support.peers.members import Deployment
from support.peers.shim import Shim, connected
from support.peers.town import Shell


@pytest.fixture
async def lonely(two: Deployment) -> AsyncIterator[Server]:
    """A member with an RM of its own, whose other member has died."""
    two.home = "a"
    async with connected(two.servers["a"]) as channel:
        await Shim(channel).register()
        await two.kill("b")
        yield two.servers["a"]


@pytest.mark.parametrize("words", ["rms", "queues", "log-level", "rms elsewhere"])
async def test_commands_name_missing_members_on_stderr(
    lonely: Server, words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """A command prints the available part, and once the members whose part is missing."""
    shown = await Shell(lonely.grpc_address, capsys)(*words.split())
    assert (shown.code, bool(shown.out)) == ((3, False) if "elsewhere" in words else (0, True))
    assert shown.err.count("licorne: members b did not answer") == 1


@pytest.mark.parametrize("words", ["rms", "queues", "explain shop", "config get", "nodes drain node-1"])
async def test_no_rm_is_reported_only_by_all_members(
    two: Deployment, words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """While a member is silent, nobody can tell that no RM has registered."""
    await two.kill("b")
    shown = await Shell(two.servers["a"].grpc_address, capsys)(*words.split())
    assert "has registered" not in shown.err
    assert "the members that answered have no RM" in shown.err


async def test_the_python_client_logs_missing_members(
    lonely: Server, caplog: pytest.LogCaptureFixture
) -> None:
    """Lists are those of the members that answer, with a warning."""
    with caplog.at_level(logging.WARNING, "licorne"):
        async with State(lonely.grpc_address) as state:
            assert [rm.rm_id for rm in await state.rms()] == ["rm"]
    assert "members 'b' did not answer" in caplog.text
