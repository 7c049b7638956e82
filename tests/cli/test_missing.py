"""Every command reports a missing RM or partition by the same message."""

from collections.abc import Mapping
from pathlib import Path

import pytest

from licorne_server.testing import FakeRM
from support.peers.shim import serving
from support.peers.tls import FILES, tls
from support.peers.town import Shell
from support.terminal import Tty

WITHOUT_RMS = {
    ("rms",): "{none}",
    ("rms", "nope"): "licorne: {none}",
    ("queues",): "licorne: {none}, so there is no partition",
    ("nodes", "drain", "node-1"): "licorne: {none}",
    ("explain", "shop"): "licorne: {none}, so there is no partition",
    ("top", "--once", "--rm", "nope"): "licorne: {none}",
    ("top", "--once", "--partition", "nope"): "licorne: {none}",
    ("config", "get"): "licorne: {none}",
}
"""Commands with their messages if there is no RM."""
OF_A_NAME = {
    ("rms", "forget", "nope", "--yes"): "licorne: {none}",
    ("queues", "--rm", "nope"): "licorne: {none}",
    ("nodes", "--partition", "nope"): "licorne: {none}",
}
"""Commands with their messages for a caller that may not see the named RM."""
NONE = "no RM has registered with this server"
NONE_TO_SEE = "no RM that you may see has registered with this server"


async def says_there_is_none(
    shell: Shell, none: str, *options: str, commands: Mapping[tuple[str, ...], str] = WITHOUT_RMS
) -> None:
    """Check that every command reports this message."""
    for command, line in commands.items():
        result = await shell(*command, *options)
        assert result.err == f"{line.format(none=none)}\n", command
        assert result.code == (3 if line.startswith("licorne: ") else 0), command


async def test_a_server_without_rms(capsys: pytest.CaptureFixture[str]) -> None:
    """A caller without an identity sees all RMs, so the message says that there are none."""
    async with serving() as server:
        commands = WITHOUT_RMS | OF_A_NAME
        await says_there_is_none(Shell(server.grpc_address, capsys), NONE, commands=commands)


@pytest.mark.slow
async def test_a_token_that_may_see_no_rm(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The message says that the caller may see no RM, whether the token is in an option or a variable."""
    mine, other = tmp_path / "mine", tmp_path / "other"
    mine.write_text("token-of-the-rm-mine")
    other.write_text("token-of-the-rm-other")
    async with (
        serving(rm_tokens={"mine": (mine,), "other": (other,)}) as server,
        FakeRM(server.grpc_address, rm_id="mine", token=mine),
    ):
        shell = Shell(server.grpc_address, capsys)
        await says_there_is_none(shell, NONE_TO_SEE, "--token", str(other))
        assert "mine" in (await shell("rms", "--token", str(mine))).out
        monkeypatch.setenv("LICORNE_TARGET", server.grpc_address)
        monkeypatch.setenv("LICORNE_TOKEN_FILE", str(other))
        assert (await shell("rms")).err == f"{NONE_TO_SEE}\n"
        async with Tty("top", "--target", server.grpc_address, width=50) as tty:
            lines = await tty.shows(NONE_TO_SEE[:40])
            at = next(at for at, line in enumerate(lines) if line.startswith("no RM"))
            said = " ".join(line.strip() for line in lines[at : at + 2])
            assert said == f"{NONE_TO_SEE}, so there are no queues"
            tty.press("q")
            assert await tty.ended() == 0


async def test_a_certificate_that_may_see_no_rm(capsys: pytest.CaptureFixture[str]) -> None:
    """The message says that the RM of the certificate has not registered."""
    options = [
        word
        for option, file in (("ca", "ca.pem"), ("cert", "rm.pem"), ("key", "rm.key"))
        for word in (f"--tls-{option}", str(FILES / file))
    ]
    async with serving(tls=tls()) as server:
        await says_there_is_none(Shell(server.grpc_address, capsys), NONE_TO_SEE, *options)
