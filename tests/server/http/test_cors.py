"""Which pages of other origins may read, as a browser asks and is answered."""

from collections.abc import AsyncIterator
from pathlib import Path

import aiohttp
import pytest

from licorne_server.process.settings import Settings, SettingsError
from licorne_server.serving.app import Server
from support.peers.shim import LOOPBACK, serving

KNOWN, UNKNOWN = "https://ui.example:8443", "https://elsewhere.example"
ALLOW = "Access-Control-Allow-Origin"


@pytest.fixture
async def client() -> AsyncIterator[aiohttp.ClientSession]:
    """A client over plain HTTP."""
    async with aiohttp.ClientSession() as client:
        yield client


async def answer(
    client: aiohttp.ClientSession, server: Server, path: str, method: str = "GET", **headers: str
) -> tuple[int, dict[str, str]]:
    """Status and headers of an answer."""
    names = {name.replace("_", "-"): value for name, value in headers.items()}
    url = f"http://{server.http_address}{path}"
    async with client.request(method, url, headers=names) as got:
        await got.read()
        return got.status, dict(got.headers)


async def test_nobody_may_unless_it_is_said(client: aiohttp.ClientSession) -> None:
    """Without origins no answer lets a page of another one read it, and nobody may ask."""
    async with serving(http=LOOPBACK) as server:
        status, headers = await answer(client, server, "/ws/v1/partitions", Origin=KNOWN)
        assert (status, ALLOW in headers) == (200, False)
        asking = {"Origin": KNOWN, "Access_Control_Request_Method": "GET"}
        status, headers = await answer(client, server, "/ws/v1/partitions", "OPTIONS", **asking)
        assert (status, ALLOW in headers) == (405, False)


async def test_pages_of_known_origins_may_read(client: aiohttp.ClientSession) -> None:
    """Answers, also long, compressed and failed ones, name the origin that asked if it is known."""
    async with serving(http=LOOPBACK, cors_origins=frozenset({KNOWN})) as server:
        for path, expected in (("/ws/v1/partitions", 200), ("/metrics", 200), ("/nothing", 404)):
            status, headers = await answer(client, server, path, Origin=KNOWN)
            assert (status, headers[ALLOW]) == (expected, KNOWN)
            assert "Origin" in headers["Vary"].split(", ")
            status, headers = await answer(client, server, path, Origin=UNKNOWN)
            assert (status, ALLOW in headers) == (expected, False)
            assert "Origin" in headers["Vary"].split(", ")
        _, headers = await answer(client, server, "/ws/v1/partitions")
        assert ALLOW not in headers


async def test_any_origin_is_said_in_one_word(client: aiohttp.ClientSession) -> None:
    """With ``*`` every page may read; certificates and cookies are never asked for."""
    async with serving(http=LOOPBACK, cors_origins=frozenset({"*"})) as server:
        _, headers = await answer(client, server, "/ws/v1/clusters", Origin=UNKNOWN)
        assert headers[ALLOW] == "*"
        assert "Access-Control-Allow-Credentials" not in headers


async def test_browsers_may_ask_before_they_send(client: aiohttp.ClientSession, tmp_path: Path) -> None:
    """A preflight needs no token, and the answer that follows does."""
    (tmp_path / "token").write_text("of-an-operator-" * 2)
    async with serving(
        http=LOOPBACK, cors_origins=frozenset({KNOWN}), operator_tokens=(tmp_path / "token",)
    ) as server:
        path = "/ws/v1/validate-conf"
        asking = {
            "Access_Control_Request_Method": "POST",
            "Access_Control_Request_Headers": "authorization",
        }
        status, headers = await answer(client, server, path, "OPTIONS", Origin=KNOWN, **asking)
        assert (status, headers[ALLOW]) == (204, KNOWN)
        assert "POST" in headers["Access-Control-Allow-Methods"]
        assert "Authorization" in headers["Access-Control-Allow-Headers"]
        status, headers = await answer(client, server, path, "OPTIONS", Origin=UNKNOWN, **asking)
        assert (status, ALLOW in headers) == (401, False)
        status, headers = await answer(client, server, path, "POST", Origin=KNOWN)
        assert (status, headers[ALLOW]) == (401, KNOWN)


@pytest.mark.parametrize("origin", ["*", KNOWN, "http://localhost:4200", "http://[::1]:80"])
def test_origins_as_browsers_write_them_are_taken(origin: str) -> None:
    """Scheme, host and port."""
    Settings(cors_origins=frozenset({origin})).check()


@pytest.mark.parametrize(
    "origin",
    ["", "ui.example", "https://", "https://ui.example/", "https://*.example", "https://UI.example",
     "ftp://ui.example", "null", "https://ui.example, https://other.example"],
)  # fmt: skip
def test_what_no_browser_sends_is_refused(origin: str) -> None:
    """An origin that would never match is a mistake that is told at the start."""
    with pytest.raises(SettingsError, match="--cors-origin: an origin such as"):
        Settings(cors_origins=frozenset({origin})).check()
