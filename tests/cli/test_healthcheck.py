"""`licorne healthcheck`: the check that a container runs against the server beside it."""

import asyncio
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from licorne_cli.commands import main
from licorne_cli.server import healthcheck
from support.peers.shim import LOOPBACK, serving
from support.peers.tls import FILES, tls

IMPORTED = """
import sys
from licorne_cli.commands import main
main(["healthcheck", "--url", "nonsense"])
print(*sorted({name.partition(".")[0] for name in sys.modules} & {"grpc", "licorne"}))
"""


async def check(*arguments: str) -> int:
    """The exit code of the command."""
    return await asyncio.to_thread(main, ["healthcheck", *arguments])


@pytest.mark.parametrize("encrypted", [False, True])
async def test_a_server_of_this_machine_is_checked_with_tls_or_without(
    encrypted: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without a URL neither TLS nor an authority has to be configured."""
    async with serving(http=LOOPBACK, tls=tls() if encrypted else None) as server:
        here = tuple(f"{scheme}://{server.http_address}/livez" for scheme in ("http", "https"))
        monkeypatch.setattr(healthcheck, "HERE", here)
        assert await check() == 0
        server.stalled("nothing goes on")
        assert await check() == 1


async def test_the_certificate_of_a_url_is_verified(capsys: pytest.CaptureFixture[str]) -> None:
    """A URL needs a certificate of a trusted authority, unless verification is skipped."""
    async with serving(http=LOOPBACK, tls=tls()) as server:
        url = f"https://{server.http_address}/livez"
        assert await check("--url", url) == 1
        said = capsys.readouterr().err
        assert said.startswith(f"licorne: {url}: certificate verify failed, ")
        assert said.endswith(": --tls-ca FILE says whom to trust\n")
        assert await check("--url", url, "--tls-ca", str(FILES / "ca.pem")) == 0
        assert await check("--url", url, "--tls-ca", str(FILES / "stranger.pem")) == 1
        assert await check("--url", url, "--tls-skip-verify") == 0


@contextmanager
def talker(answer: bytes) -> Iterator[str]:
    """The address of a server that sends this answer to its first client."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        host, port = listening.getsockname()

        def talk() -> None:
            connection, _ = listening.accept()
            with connection:
                connection.recv(4096)
                connection.sendall(answer)

        loop = asyncio.get_running_loop()
        loop.run_in_executor(None, talk)
        yield f"http://{host}:{port}/livez"


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (b"\x15\x03\x03\x00\x02\x02\x46", "no HTTP is spoken there"),
        (b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\n\r\n", "503"),
        (b"HTTP/1.1 503 X\r\nContent-Length: 9\r\n\r\nshut \x1b\nno", "status 503: shut \\x1b"),
        (b"HTTP/1.1 204 No Content\r\n\r\n", "status 204"),
    ],
    ids=["garbage", "ill", "ill, and says why", "something else"],
)
async def test_all_but_200_is_a_failure(answer: bytes, said: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Any answer other than 200 exits with 1 and one line, and without a traceback."""
    with talker(answer) as url:
        assert await check("--url", url) == 1
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 1
    assert lines[0].startswith(f"licorne: {url}: ")
    assert said in lines[0]


async def test_unusable_options_of_a_health_check_are_named(capsys: pytest.CaptureFixture[str]) -> None:
    """A missing authority and an invalid URL are named."""
    assert await check("--url", "https://127.0.0.1:1/livez", "--tls-ca", "/nothing.pem") == 1
    assert "--tls-ca /nothing.pem: No such file" in capsys.readouterr().err
    assert await check("--url", "nonsense") == 1
    assert "licorne: nonsense: unknown url type" in capsys.readouterr().err


def test_a_health_check_imports_no_grpc() -> None:
    """A check, which containers run often, imports neither gRPC nor the client."""
    ran = subprocess.run([sys.executable, "-c", IMPORTED], capture_output=True, text=True, check=True)
    assert ran.stdout.split() == []
