"""A fake RM connects to a server with TLS: by certificate, token, contexts and variables."""

import asyncio
import signal
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from licorne_cli.commands import main
from licorne_cli.connection.contexts import PATH_VARIABLE
from licorne_server.assembly.server import Server
from support.patience import PATIENCE
from support.peers.shim import serving
from support.peers.tls import FILES, SPIFFE, tls
from support.surroundings import CLOSED

CERTIFICATE = (
    *("--tls-ca", str(FILES / "ca.pem"), "--tls-cert", str(FILES / "rm.pem")),
    *("--tls-key", str(FILES / "rm.key")),
)


@asynccontextmanager
async def fake_rm(*arguments: str) -> AsyncIterator[asyncio.subprocess.Process]:
    """A running process of `licorne fake-rm`."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "licorne_server", "fake-rm", "--round", "2", *arguments),
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


async def said(process: asyncio.subprocess.Process, wanted: Callable[[str], bool]) -> str:
    """The first matching line of the process's output."""
    assert process.stderr is not None
    async with asyncio.timeout(PATIENCE):
        while line := (await process.stderr.readline()).decode():
            if wanted(line):
                return line
    raise AssertionError("it ended without a word of that")


def is_placed(line: str) -> bool:
    """Whether the line reports allocations."""
    return " placed" in line and ": 0 placed" not in line


async def assert_works(server: Server, *arguments: str, rm_id: str) -> None:
    """Check that an RM with these arguments gets allocations under that name, and stops with success."""
    async with fake_rm(*arguments) as process:
        await said(process, is_placed)
        [partition] = server.scheduler.views.partitions()
        process.send_signal(signal.SIGTERM)
        async with asyncio.timeout(PATIENCE):
            assert await process.wait() == 0
    assert partition.name == f"[{rm_id}]default"
    assert partition.allocations > 0


@pytest.fixture
async def mutual() -> AsyncIterator[Server]:
    """A server that requires certificates, and one for the RM `batch`."""
    async with serving(tls=tls(), rm_identities={"batch": frozenset({SPIFFE})}) as server:
        yield server


@pytest.mark.slow
async def test_an_rm_connects_by_certificate(mutual: Server) -> None:
    """The RM is served under its certificate, although only one target of the list runs."""
    targets = f"{CLOSED},{mutual.grpc_address}"
    await assert_works(mutual, "--target", targets, *CERTIFICATE, rm_id="batch")


@pytest.mark.slow
async def test_an_rm_connects_by_token(tmp_path: Path) -> None:
    """The RM is served under its token, even if the server's name differs from the target."""
    token = tmp_path / "token"
    token.write_text("a-token-of-the-batch-rm\n")
    async with serving(tls=tls(mutual=False), rm_tokens={"batch": (token,)}) as server:
        await assert_works(
            server,
            *("--target", server.grpc_address, "--tls-ca", str(FILES / "ca.pem")),
            *("--tls-server-name", "localhost", "--token", str(token)),
            rm_id="batch",
        )


@pytest.mark.slow
async def test_contexts_connect_an_rm(
    mutual: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A context has the target and the identity, including the name of the RM."""
    monkeypatch.setenv(PATH_VARIABLE, str(tmp_path / "contexts.yaml"))
    values = ("--target", mutual.grpc_address, *CERTIFICATE, "--rm", "batch")
    assert main(["context", "set", "test", *values]) == 0
    await assert_works(mutual, "--context", "test", "--world", "services", rm_id="batch")


@pytest.mark.slow
async def test_an_rm_connects_by_variables(mutual: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """Variables have the same effect as a context."""
    monkeypatch.setenv("LICORNE_TARGET", mutual.grpc_address)
    for option, file in zip(CERTIFICATE[::2], CERTIFICATE[1::2], strict=True):
        monkeypatch.setenv(f"LICORNE_{option[2:].upper().replace('-', '_')}", file)
    await assert_works(mutual, rm_id="batch")


@pytest.mark.slow
async def test_a_certificate_of_another_rm_is_refused(mutual: Server) -> None:
    """If the certificate does not allow the name of the RM, the process ends with the server's reason."""
    target = ("--target", mutual.grpc_address)
    async with fake_rm(*target, *CERTIFICATE, "--rm-id", "other") as process:
        line = await said(process, lambda line: line.startswith("licorne:"))
        async with asyncio.timeout(PATIENCE):
            assert await process.wait() == 4
    assert "this certificate may not act for RM other" in line


@pytest.mark.slow
async def test_an_rm_without_tls_waits_with_a_message(mutual: Server) -> None:
    """A plain connection to a server with TLS gives a message, and the RM waits."""
    async with fake_rm("--target", mutual.grpc_address, "--timeout", "0.1") as process:
        line = await said(process, lambda line: "give --tls" in line)
        assert process.returncode is None
    assert line == f"batch: {mutual.grpc_address} speaks TLS: give --tls, or --tls-ca FILE\n"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--tls-cert", "c.pem"), "--tls-cert and --tls-key go together"),
        (("--tls-ca", "none.pem"), "cannot read none.pem: No such file or directory"),
        (("--token", "none"), "cannot read none: No such file or directory"),
        (("--context", "none"), "there is no context none in "),
    ],
)
def test_unusable_settings_of_a_fake_rm_are_refused(
    arguments: tuple[str, ...],
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Unusable settings are reported at once, as by every command."""
    monkeypatch.setenv(PATH_VARIABLE, str(tmp_path / "contexts.yaml"))
    monkeypatch.chdir(tmp_path)
    assert main(["fake-rm", "--target", CLOSED, *arguments]) == 1
    assert message in capsys.readouterr().err
