"""Every command reports a missing RM or partition in the same words."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from licorne_server.testing import FakeRM
from support.peers.shim import serving
from support.peers.tls import FILES, tls
from support.peers.town import Shell, Town
from support.terminal import Tty

OF_A_PARTITION = (
    ("queues",),
    ("queues", "stop", "root.prod", "--yes"),
    ("apps",),
    ("apps", "shop"),
    ("apps", "kill", "shop", "--yes"),
    ("nodes",),
    ("nodes", "drain", "node-1"),
    ("users",),
    ("top", "--once"),
    ("top", "--once", "-o", "json"),
    ("explain", "shop"),
)
OF_AN_RM = (
    *OF_A_PARTITION,
    ("events",),
    ("events", "-w"),
    ("events", "--user", "ann"),
    ("state-dump",),
    ("config", "get"),
    ("config", "history"),
)


@pytest.mark.parametrize("command", OF_AN_RM, ids=" ".join)
async def test_an_rm_that_is_not_there(
    town: Town, command: Sequence[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The message lists the existing RMs; by the environment as by the option."""
    expected = 'licorne: no RM "nope"; there are: blue, green\n'
    result = await town.shell(*command, "--rm", "nope")
    assert (result.code, result.err) == (3, expected)
    monkeypatch.setenv("LICORNE_RM", "nope")
    result = await town.shell(*command)
    assert (result.code, result.err) == (3, expected)


@pytest.mark.parametrize("command", OF_A_PARTITION, ids=" ".join)
async def test_a_partition_that_is_not_there(
    town: Town, command: Sequence[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The message lists the existing partitions; with a named RM only its own."""
    result = await town.shell(*command, "--partition", "nope", "--rm", "green")
    expected = 'licorne: no partition "nope"; there are: [green]default\n'
    assert (result.code, result.err) == (3, expected)
    monkeypatch.setenv("LICORNE_PARTITION", "[blue]nope")
    result = await town.shell(*command)
    expected = 'licorne: no partition "[blue]nope"; there are: [blue]default, [green]default\n'
    assert (result.code, result.err) == (3, expected)


@pytest.mark.parametrize("command", [("rms", "nope"), ("rms", "forget", "nope", "--yes")])
async def test_an_rm_that_is_asked_for(town: Town, command: Sequence[str]) -> None:
    """The list of RMs uses the same words."""
    result = await town.shell(*command)
    expected = 'licorne: no RM "nope"; there are: blue, green\n'
    assert (result.code, result.err) == (3, expected)


async def test_a_partition_of_another_rm(town: Town) -> None:
    """Two options that exclude each other are wrong usage."""
    result = await town.shell("nodes", "--partition", "[blue]default", "--rm", "green")
    expected = "licorne: --partition [blue]default is not one of --rm green\n"
    assert (result.code, result.err) == (1, expected)


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
"""By command what it says where there is no RM."""
OF_A_NAME = {
    ("rms", "forget", "nope", "--yes"): "licorne: {none}",
    ("queues", "--rm", "nope"): "licorne: {none}",
    ("nodes", "--partition", "nope"): "licorne: {none}",
}
"""The same of what is refused to those who may not see the RM that they name."""
NONE = "no RM has registered with this server"
NONE_TO_SEE = "no RM that you may see has registered with this server"


async def says_there_is_none(
    shell: Shell, none: str, *options: str, commands: Mapping[tuple[str, ...], str] = WITHOUT_RMS
) -> None:
    """Every command does, in these words."""
    for command, line in commands.items():
        result = await shell(*command, *options)
        assert result.err == f"{line.format(none=none)}\n", command
        assert result.code == (3 if line.startswith("licorne: ") else 0), command


async def test_a_server_without_rms(capsys: pytest.CaptureFixture[str]) -> None:
    """A caller without identity sees all RMs, so there are none."""
    async with serving() as server:
        commands = WITHOUT_RMS | OF_A_NAME
        await says_there_is_none(Shell(server.grpc_address, capsys), NONE, commands=commands)


@pytest.mark.slow
async def test_a_token_that_shows_no_rm(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """There is an RM, but this caller may not see it; by the environment as by the option."""
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


async def test_a_certificate_that_shows_no_rm(capsys: pytest.CaptureFixture[str]) -> None:
    """A certificate of an RM shows this RM alone, and it has not registered."""
    options = [
        word
        for option, file in (("ca", "ca.pem"), ("cert", "rm.pem"), ("key", "rm.key"))
        for word in (f"--tls-{option}", str(FILES / file))
    ]
    async with serving(tls=tls()) as server:
        await says_there_is_none(Shell(server.grpc_address, capsys), NONE_TO_SEE, *options)


SIMILAR = {
    ("queues", "root.prd"): "root.prod",
    ("queues", "stop", "root.prd", "--yes"): "root.prod",
    ("queues", "start", "root.prd"): "root.prod",
    ("apps", "shpo"): "shop",
    ("apps", "kill", "shpo", "--yes"): "shop",
    ("apps", "hold", "shpo"): "shop",
    ("explain", "shpo"): "shop",
    ("users", "an"): "ann",
    ("apps", "--queue", "root.prd"): "root.prod",
    ("calendar", "--queue", "root.prd"): "root.prod",
    ("explain", "--queue", "root.prd"): "root.prod",
    ("nodes", "nod-1"): "node-1",
    ("nodes", "cordon", "nod-1"): "node-1",
    ("nodes", "drain", "nod-1"): "node-1",
}


@pytest.mark.parametrize(("command", "meant"), SIMILAR.items())
async def test_a_name_that_is_much_like_another(town: Town, command: Sequence[str], meant: str) -> None:
    """The other one is named, whatever was to be done with it."""
    result = await town.shell(*command, "--rm", "blue")
    assert (result.code, result.out) == (3, "")
    assert result.err.endswith(f", did you mean {meant}?\n")


async def test_a_name_that_is_there_is_not_suggested(town: Town) -> None:
    """If another name of the line is unknown, an existing name is no suggestion for it."""
    result = await town.shell("explain", "shop", "nokey", "--rm", "blue")
    assert result.code == 3
    assert "did you mean" not in result.err
