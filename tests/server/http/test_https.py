"""HTTP over TLS: admission, rights of certificates, plain addresses, and changed files."""

import asyncio
import shutil
import socket
import ssl
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from structlog.testing import capture_logs

from licorne_server.assembly.server import Server
from licorne_server.process.bounds import PeerBounds
from licorne_server.process.settings import Address, Settings, SettingsError
from support.patience import PATIENCE
from support.peers.shim import LOOPBACK, Shim, serving
from support.peers.tls import FILES, SPIFFE, connected_as, https, tls
from support.server.reports import warned

EVERYWHERE = Address(host="0.0.0.0", port=0)
MINE = ("/ws/v1/partition/[rm]default/queues", "/ws/v1/config?rm=rm")
OTHERS = ("/ws/v1/partition/[operator]default/queues", "/ws/v1/config?rm=operator")
HANDSHAKE = 22  # A record of TLS.
OF_ALL = ("/metrics", "/ws/v1/partitions", "/debug/fullstatedump", "/debug/stack", "/debug/pprof/")
PROBES = ("/livez", "/readyz")


class Secure:
    """A reader with certificates for requests to a server over TLS."""

    def __init__(self, server: Server) -> None:
        """Use this server."""
        self.server = server

    async def ask(self, path: str, name: str = "", files: Path = FILES) -> tuple[int, str]:
        """The status and text for the bearer of a certificate, or without one."""
        async with aiohttp.ClientSession() as client:
            url = f"https://{self.server.http_address}{path}"
            async with client.get(url, ssl=https(name, files)) as answer:
                return answer.status, await answer.text()

    async def status(self, path: str, name: str = "") -> int:
        """The status alone."""
        return (await self.ask(path, name))[0]


@pytest.fixture
async def secure() -> AsyncIterator[Secure]:
    """A server that identifies `rm` and an operator, both registered, by their certificates."""
    identities = {"rm": frozenset({SPIFFE})}
    operators = frozenset({"operator"})
    async with serving(http=LOOPBACK, tls=tls(), rm_identities=identities, operators=operators) as server:
        for name in ("rm", "operator"):
            async with connected_as(name, server) as channel:
                await Shim(channel, name).register()
        yield Secure(server)


async def test_an_operator_may_read_everything(secure: Secure) -> None:
    """The certificate of an operator opens every path."""
    for path in (*PROBES, *MINE, *OTHERS, *OF_ALL):
        assert await secure.status(path, "operator") == 200, path


async def test_an_rm_may_read_its_own_data_only(secure: Secure) -> None:
    """The certificate of an RM opens its own data, and all else is refused alike."""
    for path in (*PROBES, *MINE):
        assert await secure.status(path, "rm") == 200, path
    absent = ("/ws/v1/partition/[nobody]default/queues", "/ws/v1/config?rm=nobody")
    for path in (*OTHERS, *OF_ALL, *absent, "/ws/v1/config"):
        status, text = await secure.ask(path, "rm")
        assert (status, "this certificate does not allow it" in text) == (403, True), path


async def test_only_probes_need_no_certificate(secure: Secure) -> None:
    """A probe, which has no certificate, gets an answer, and all other paths are refused."""
    for path in PROBES:
        assert await secure.status(path) == 200
    for path in (*MINE, *OF_ALL, "/nothing"):
        status, text = await secure.ask(path)
        assert (status, "a client certificate is needed" in text) == (403, True), path


async def test_a_certificate_of_another_authority_ends_the_connection(secure: Secure, tmp_path: Path) -> None:
    """A certificate of another authority ends the connection, also for probes."""
    shutil.copy(FILES / "ca.pem", tmp_path)
    for kind in ("pem", "key"):
        shutil.copy(FILES / f"stranger.{kind}", tmp_path)
    with pytest.raises(aiohttp.ClientError):
        await secure.ask("/livez", "stranger", tmp_path)


async def test_plain_http_is_not_answered(secure: Secure) -> None:
    """A TLS port does not answer plain requests."""
    async with aiohttp.ClientSession() as client:
        with pytest.raises(aiohttp.ClientError):
            await client.get(f"http://{secure.server.http_address}/livez")


async def test_tokens_are_required_over_tls_without_client_certificates(tmp_path: Path) -> None:
    """With tokens a request needs one, over TLS as well."""
    (tmp_path / "token").write_text("of-an-operator-" * 2)
    async with serving(http=LOOPBACK, tls=tls(mutual=False), operator_tokens=(tmp_path / "token",)) as server:
        url = f"https://{server.http_address}/ws/v1/partitions"
        async with aiohttp.ClientSession() as client:
            async with client.get(url, ssl=https()) as answer:
                assert answer.status == 401
            headers = {"Authorization": f"Bearer {'of-an-operator-' * 2}"}
            async with client.get(url, ssl=https(), headers=headers) as answer:
                assert answer.status == 200


async def test_tls_without_a_client_authority_admits_everyone() -> None:
    """Without an authority for clients TLS encrypts, and everybody may read."""
    async with serving(http=LOOPBACK, tls=tls(mutual=False)) as server:
        assert await Secure(server).status("/debug/stack") == 200


async def test_changed_files_are_used_by_the_next_connection(tmp_path: Path) -> None:
    """Neither a new certificate nor a new authority for clients requires a restart."""
    for file in FILES.glob("*.*"):
        shutil.copy(file, tmp_path)
    operators = frozenset({"operator", "stranger"})
    async with serving(http=LOOPBACK, tls=tls(tmp_path), operators=operators) as server:
        secure = Secure(server)
        assert await secure.status("/metrics", "operator") == 200
        assert await shown_by(server) == (FILES / "server.pem").read_text()
        shutil.copy(FILES / "stranger.pem", tmp_path / "ca.pem")
        for kind in ("key", "pem"):
            shutil.copy(FILES / f"operator.{kind}", tmp_path / f"server.{kind}")
        assert await shown_by(server) == (FILES / "operator.pem").read_text()
        context = https("stranger")
        context.check_hostname = False  # The new certificate has the operator's name.
        url = f"https://{server.http_address}/metrics"
        async with aiohttp.ClientSession() as client:
            async with client.get(url, ssl=context) as answer:
                assert answer.status == 200
            known = https("operator")
            known.check_hostname = False
            with pytest.raises(aiohttp.ClientError):
                await client.get(url, ssl=known)


async def shown_by(server: Server) -> str:
    """The certificate that a server shows over HTTP, in PEM."""
    host, _, port = server.http_address.rpartition(":")
    return await asyncio.to_thread(ssl.get_server_certificate, (host, int(port)))


async def test_broken_files_are_not_used(tmp_path: Path) -> None:
    """Half of a new pair, or a missing file, leaves the old pair in use."""
    for file in FILES.glob("*.*"):
        shutil.copy(file, tmp_path)
    async with serving(http=LOOPBACK, tls=tls(tmp_path, mutual=False)) as server:
        before = (FILES / "server.pem").read_text()
        (tmp_path / "server.key").write_text("half a key")
        assert await shown_by(server) == before
        (tmp_path / "server.key").unlink()
        assert await shown_by(server) == before


async def test_unfinished_handshakes_are_ended() -> None:
    """A silent client blocks no other, and is cut off in time."""
    bounds = PeerBounds(http_connections=8, http_idle=60.0)
    async with (
        serving(http=LOOPBACK, tls=tls(mutual=False), peers=bounds) as server,
        AsyncExitStack() as stack,
    ):
        silent = [await silence(stack, server) for _ in range(30)]
        assert await Secure(server).status("/livez") == 200
        assert await asyncio.wait_for(silent[0].read(), PATIENCE) == b""
    short = PeerBounds(http_idle=0.05)
    async with (
        serving(http=LOOPBACK, tls=tls(mutual=False), peers=short) as server,
        AsyncExitStack() as stack,
    ):
        assert await asyncio.wait_for((await silence(stack, server)).read(), PATIENCE) == b""


async def test_a_server_stops_during_handshakes() -> None:
    """Connections that are not encrypted yet do not delay the stop."""
    async with AsyncExitStack() as stack:
        async with asyncio.timeout(PATIENCE):
            async with serving(http=LOOPBACK, tls=tls(mutual=False)) as server:
                reader = await silence(stack, server)
                assert await Secure(server).status("/livez") == 200
            assert await reader.read() == b""


async def silence(stack: AsyncExitStack, server: Server) -> asyncio.StreamReader:
    """A silent connection."""
    host, _, port = server.http_address.rpartition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    stack.callback(writer.close)
    return reader


async def test_a_request_together_with_the_end_of_the_handshake_is_answered(secure: Secure) -> None:
    """Data that a client sends together with the end of its handshake is not lost."""
    host, _, port = secure.server.http_address.rpartition(":")
    for _ in range(20):
        reader, writer = await asyncio.open_connection(host, int(port), ssl=https())
        writer.write(b"GET /livez HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        answer = await asyncio.wait_for(reader.read(), PATIENCE)
        assert answer.startswith(b"HTTP/1.1 200 OK")
        writer.close()


async def test_a_handshake_before_accept_succeeds(monkeypatch: pytest.MonkeyPatch, secure: Secure) -> None:
    """A handshake that begins before the accept succeeds, also on a Python that reads too early."""

    def add_reader(self: Any, *reading: Any) -> None:
        """The method of Python 3.11.2, which does not check whether reading was paused."""
        if not self._closing:
            self._loop._add_reader(*reading)

    loops: Any = asyncio.selector_events
    monkeypatch.setattr(loops._SelectorTransport, "_add_reader", add_reader)
    host, _, port = secure.server.http_address.rpartition(":")
    sent = ssl.MemoryBIO()
    client = https().wrap_bio(ssl.MemoryBIO(), sent, server_hostname=host)
    with pytest.raises(ssl.SSLWantReadError):
        client.do_handshake()
    # Not by the loop, in which the server runs as well: all bytes have arrived when it reads.
    with socket.create_connection((host, int(port))) as connection:
        connection.sendall(sent.read())
        connection.setblocking(False)
        heard = asyncio.get_running_loop().sock_recv(connection, 1)
        assert await asyncio.wait_for(heard, PATIENCE) == bytes([HANDSHAKE])


async def test_metrics_have_a_separate_address() -> None:
    """The address has metrics and probes only, plain on loopback, under every host name."""
    async with serving(http=None, metrics=LOOPBACK, tls=tls()) as server:
        assert not server.http_address
        async with aiohttp.ClientSession() as client:

            async def status(path: str) -> int:
                url = f"http://{server.metrics_address}{path}"
                async with client.get(url) as answer:
                    return answer.status

            assert [await status(path) for path in (*PROBES, "/metrics", "/ws/v1/metrics")] == [200] * 4
            for path in ("/ws/v1/partitions", "/debug/stack", "/ws/v1/stack", "/"):
                assert await status(path) in (403, 404)


async def test_the_address_for_metrics_has_tls_off_loopback() -> None:
    """Off loopback the address has the TLS of HTTP, or is configured as plain."""
    operators = frozenset({"operator"})
    async with serving(metrics=EVERYWHERE, tls=tls(), operators=operators) as server:
        port = server.metrics_address.rpartition(":")[2]
        async with aiohttp.ClientSession() as client:
            for name, expected in (("", 403), ("rm", 403), ("operator", 200)):
                url = f"https://127.0.0.1:{port}/metrics"
                async with client.get(url, ssl=https(name)) as answer:
                    assert answer.status == expected
    async with serving(metrics=EVERYWHERE, tls=tls(), metrics_insecure=True) as server:
        port = server.metrics_address.rpartition(":")[2]
        async with (
            aiohttp.ClientSession() as client,
            client.get(f"http://127.0.0.1:{port}/metrics") as answer,
        ):
            assert answer.status == 200


async def test_plain_http_beside_certificates_allows_reads_only() -> None:
    """Without TLS no caller has a certificate: all may read everything but the state of the process."""
    async with (
        serving(http=LOOPBACK, tls=tls(), http_insecure=True) as server,
        aiohttp.ClientSession() as client,
    ):
        for path, expected in (("/ws/v1/partitions", 200), ("/debug/stack", 403)):
            async with client.get(f"http://{server.http_address}{path}") as answer:
                assert answer.status == expected
                assert expected == 200 or "plain HTTP does not allow it" in await answer.text()


REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"http": EVERYWHERE}, "refusing to serve HTTP without TLS on 0.0.0.0:0"),
    ({"metrics": EVERYWHERE}, "refusing to serve metrics without TLS on 0.0.0.0:0"),
    (
        {"http": EVERYWHERE, "metrics_insecure": True, "metrics": EVERYWHERE},
        "refusing to serve HTTP without TLS on 0.0.0.0:0",
    ),
    (
        {"http": EVERYWHERE, "insecure": True, "operator_tokens": (Path("x"),)},
        "access.operator_token_files needs TLS on 0.0.0.0:0",
    ),
    (
        {"metrics": EVERYWHERE, "metrics_insecure": True, "operator_tokens": (Path("x"),)},
        "access.operator_token_files needs TLS on 0.0.0.0:0",
    ),
]


@pytest.mark.parametrize(("changes", "text"), REFUSED)
def test_plain_http_off_loopback_must_be_configured(changes: dict[str, Any], text: str) -> None:
    """Plain HTTP off loopback must be configured, and allows no tokens."""
    with pytest.raises(SettingsError, match=text):
        Settings(**changes).check()


@pytest.mark.parametrize(
    ("changes", "exposed"),
    [
        ({"http": EVERYWHERE, "tls": tls()}, set()),
        ({"http": EVERYWHERE, "tls": tls(), "http_insecure": True}, {"http"}),
        ({"http": EVERYWHERE, "http_insecure": True}, {"http"}),
        ({"listen": EVERYWHERE, "http": EVERYWHERE, "insecure": True}, {"grpc", "http"}),
        ({"metrics": EVERYWHERE, "tls": tls()}, set()),
        ({"metrics": EVERYWHERE, "tls": tls(), "metrics_insecure": True}, {"metrics"}),
        ({"metrics": LOOPBACK, "tls": tls()}, set()),
    ],
)
def test_exposed_plain_addresses_are_listed(changes: dict[str, Any], exposed: set[str]) -> None:
    """Addresses that others can reach without TLS are listed by service."""
    settings = Settings(**changes)
    settings.check()
    assert settings.exposed.keys() == exposed


async def test_the_warning_names_plain_addresses_only() -> None:
    """A server with TLS on gRPC and plain HTTP warns of its HTTP address only."""
    with capture_logs() as lines:
        async with serving(http=EVERYWHERE, tls=tls(), http_insecure=True) as server:
            address = server.http_address
    [warning] = warned(lines)
    told = {"event": "insecure: served without TLS where others can reach it", "log_level": "warning"}
    assert warning == {**told, "http": address}
