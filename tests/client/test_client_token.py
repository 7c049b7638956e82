"""The client with a bearer token: its identity, and tokens that change."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from licorne import Client, RetryConfig, Token, Unauthorized
from licorne_cli.failures import OK, USAGE
from licorne_server.assembly.server import Server
from support.patience import PATIENCE
from support.peers.scripted import ScriptedStream, scripted
from support.peers.shim import eventually, serving
from support.peers.town import Shell

QUICK = RetryConfig(initial=0.01, maximum=0.05)
GOOD = "the-token-of-this-rm"
QUEUES = "partitions: [{name: default, queues: [{name: root, queues: [{name: a}]}]}]"


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[Server]:
    """A server that identifies the RM `rm`, and an operator, by the same token."""
    file = tmp_path / "known"
    file.write_text(GOOD)
    async with serving(rm_tokens={"rm": (file,)}, operator_tokens=(file,)) as server:
        yield server


async def test_an_rm_is_served_with_its_token(server: Server, tmp_path: Path) -> None:
    """With a token from a file or a function the RM is served, and may configure itself."""
    sources: tuple[Token, ...] = (tmp_path / "known", lambda: GOOD)
    for token in sources:
        async with Client(server.grpc_address, rm_id="rm", token=token) as rm:
            await asyncio.wait_for(rm.ready(), PATIENCE)
            await rm.update_configuration(QUEUES)


@pytest.mark.parametrize("token", ["an-unknown-token-of-it", "", "two words", "é" * 20])
async def test_a_wrong_token_is_final(server: Server, token: str) -> None:
    """A client without a valid token gets an error, and does not try again."""
    async with Client(server.grpc_address, rm_id="rm", token=lambda: token, retry=QUICK) as rm:
        with pytest.raises(Unauthorized, match="token"):
            await asyncio.wait_for(rm.ready(), PATIENCE)
        assert rm.stats.streams == 1


async def test_a_token_is_read_for_every_stream(server: Server, tmp_path: Path) -> None:
    """A file that is missing at first is read for the next try."""
    late = tmp_path / "late"
    async with Client(server.grpc_address, rm_id="rm", token=late, retry=QUICK) as rm:
        await eventually(lambda: rm.stats.streams > 1)
        late.write_text(f"{GOOD}\n")
        await asyncio.wait_for(rm.ready(), PATIENCE)


@pytest.mark.parametrize(
    ("target", "token", "error", "said"),
    [
        ("example.org:7070", lambda: GOOD, ValueError, "over TLS only"),
        ("10.0.0.1:7070", Path("token"), ValueError, "target is '10.0.0.1:7070'"),
        ("localhost:7070", "the token itself", TypeError, "a Path or a function"),
    ],
)
async def test_unsafe_uses_of_a_token_are_refused(
    target: str, token: Any, error: type[Exception], said: str
) -> None:
    """A token is sent to another machine over TLS only, and is never a plain argument."""
    with pytest.raises(error, match=said):
        Client(target, rm_id="rm", token=token)


async def test_a_redirect_does_not_reveal_the_token() -> None:
    """After a redirect to another machine the token is not sent there without TLS."""

    async def redirect(stream: ScriptedStream) -> None:
        await stream.welcome(redirect="192.0.2.1:7070")

    async with (
        scripted(redirect) as target,
        Client(target, rm_id="rm1", token=lambda: GOOD, retry=QUICK) as rm,
    ):
        with pytest.raises(Unauthorized, match=r"target is '192\.0\.2\.1:7070'"):
            await asyncio.wait_for(rm.ready(), PATIENCE)


async def test_commands_take_a_token(
    server: Server, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Operators give the commands a file with their token; without it they are refused."""
    known = str(tmp_path / "known")
    shell = Shell(server.grpc_address, capsys)
    async with Client(server.grpc_address, rm_id="rm", token=tmp_path / "known") as rm:
        await asyncio.wait_for(rm.ready(), PATIENCE)
        assert (await shell("queues", "--token", known)).code == OK
        assert (await shell("events", "--token", known)).code == OK
        refused = await shell("queues")
        assert "UNAUTHENTICATED: a valid token is needed" in refused.err
    missing = await shell("queues", "--token", f"{known}x")
    assert (missing.code, missing.err) == (
        USAGE,
        f"licorne: cannot read {known}x: No such file or directory\n",
    )
