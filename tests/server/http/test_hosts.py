"""A page of another site whose name leads to this machine reads nothing (DNS rebinding)."""

from pathlib import Path

import aiohttp
import pytest
from structlog.testing import capture_logs

from licorne_server.process.settings import Address, Settings, SettingsError
from licorne_server.serving.app import Server
from support.peers.shim import LOOPBACK, serving
from support.peers.tls import https, tls

OPEN = (
    "/ui",
    "/ui/api/feed",
    "/ui/api/config?rm=x",
    "/ws/v1/partitions",
    "/metrics",
    "/debug/stack",
)
PROBES = ("/livez", "/readyz")
MISDIRECTED = 421


async def status(server: Server, path: str, host: str | None, address: str = "") -> int:
    """How a request under a name is answered, or under none."""
    name, _, port = (address or server.http_address).rpartition(":")
    skipped = {"Host"} if host is None else set()
    headers = {} if host is None else {"Host": host}
    url = f"http://{name.replace('0.0.0.0', '127.0.0.1')}:{port}{path}"
    async with (
        aiohttp.ClientSession() as client,
        client.get(url, headers=headers, skip_auto_headers=skipped) as answer,
    ):
        return answer.status


@pytest.mark.parametrize(
    "host",
    ["127.0.0.1", "127.0.0.1:9080", "localhost", "LOCALHOST:1", "localhost.", "ui.localhost:80",
     "[::1]:9080", "[::1]", "10.1.2.3:9080"],
)  # fmt: skip
async def test_addresses_and_localhost_are_answered(host: str) -> None:
    """No other site can have them, whatever the port is that a tunnel or a container puts there."""
    async with serving(http=LOOPBACK) as server:
        assert await status(server, "/ws/v1/partitions", host) == 200


@pytest.mark.parametrize(
    "host",
    ["evil.example", "evil.example:9080", "localhost.evil.example", "127.0.0.1.evil.example",
     "evillocalhost", "[evil]", "", ":9080"],
)  # fmt: skip
async def test_other_names_are_refused(host: str) -> None:
    """On every path that shows something; probes show nothing."""
    async with serving(http=LOOPBACK, metrics=LOOPBACK) as server:
        for path in OPEN:
            assert await status(server, path, host) == MISDIRECTED, path
        assert await status(server, "/metrics", host, server.metrics_address) == MISDIRECTED
        for path in PROBES:
            assert await status(server, path, host) == 200


async def test_a_refusal_says_what_to_do() -> None:
    """It names the option, and the log has the name, both cut short."""
    async with serving(http=LOOPBACK) as server, aiohttp.ClientSession() as client:
        url = f"http://{server.http_address}/ui"
        with capture_logs() as lines:
            async with client.get(url, headers={"Host": "proxy.example:8080"}) as answer:
                message = (await answer.json())["message"]
        assert "--http-host proxy.example" in message
        assert [line["host"] for line in lines if line["event"] == "unknown host"]
        async with client.get(url, headers={"Host": "x" * 5_000}) as answer:
            assert len(await answer.text()) < 2_000


async def test_names_that_are_given_are_answered() -> None:
    """In any case of letters; others still are not, unless all are."""
    async with serving(http=LOOPBACK, http_hosts=frozenset({"Ui.Example"})) as server:
        assert await status(server, "/ui", "ui.example:8443") == 200
        assert await status(server, "/ui", "other.example") == MISDIRECTED
    async with serving(http=LOOPBACK, http_hosts=frozenset({"*"})) as server:
        assert await status(server, "/ui", "whatever.example") == 200


async def test_who_needs_an_identity_needs_no_name(tmp_path: Path) -> None:
    """A page of another site has no token, and no certificate of the server's name."""
    (tmp_path / "token").write_text("of-an-operator-" * 2)
    async with serving(http=LOOPBACK, operator_tokens=(tmp_path / "token",)) as server:
        assert await status(server, "/metrics", "evil.example") == 401
    async with (
        serving(http=LOOPBACK, tls=tls(mutual=False)) as server,
        aiohttp.ClientSession() as client,
    ):
        url = f"https://{server.http_address}/metrics"
        async with client.get(url, ssl=https(), headers={"Host": "any.example"}) as answer:
            assert answer.status == 200
    async with serving(http=LOOPBACK, tls=tls(), http_insecure=True) as server:
        assert await status(server, "/metrics", "evil.example") == MISDIRECTED


async def test_an_address_for_others_is_asked_for_by_name() -> None:
    """In containers and clusters the server is known by names that it does not know itself."""
    everywhere = Address(host="0.0.0.0", port=0)
    async with serving(http=everywhere, insecure=True) as server:
        assert await status(server, "/ws/v1/partitions", "licorne:9080") == 200


@pytest.mark.parametrize("name", ["*", "licorne.example", "licorne", "a-b.c_d.local"])
def test_names_are_taken(name: str) -> None:
    """As a header has them, without a port."""
    Settings(http_hosts=frozenset({name})).check()


@pytest.mark.parametrize("name", ["", "http://x", "x:80", "*.x", "a b", "a,b", "x/y", "\u00fc.example"])
def test_what_no_header_has_is_refused(name: str) -> None:
    """A name that would never match is a mistake that is told at the start."""
    with pytest.raises(SettingsError, match="--http-host: a name such as"):
        Settings(http_hosts=frozenset({name})).check()
