"""With tokens the page's files are public, and its data is not."""

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from licorne_server.assembly.server import Server
from licorne_server.http.ui import page
from support.patience import PATIENCE
from support.peers.shim import LOOPBACK, Shim, connected, serving
from support.peers.tls import Bearing
from support.server.http_site import API, Viewer

OPERATOR, MINE, OTHERS = ("token-of-" + who * 8 for who in "abc")
DATA = ["applications", "nodes", "heat", "usage", "preemptions", "queue/root", "usage/user/ann"]


@pytest.fixture
async def served(tmp_path: Path) -> AsyncIterator[Server]:
    """A server with tokens of an operator and of two registered RMs."""
    for name, token in (("mine", MINE), ("others", OTHERS), ("operator", OPERATOR)):
        (tmp_path / name).write_text(token)
    tokens = {name: (tmp_path / name,) for name in ("mine", "others")}
    async with (
        serving(http=LOOPBACK, rm_tokens=tokens, operator_tokens=(tmp_path / "operator",)) as server,
        connected(server) as channel,
    ):
        for rm, token in (("mine", MINE), ("others", OTHERS)):
            bearing: Any = Bearing(channel, f"Bearer {token}")
            await Shim(bearing, rm).register()
        yield server


@pytest.fixture
async def client() -> AsyncIterator[aiohttp.ClientSession]:
    """A client without tokens."""
    async with aiohttp.ClientSession() as client:
        yield client


async def status(client: aiohttp.ClientSession, server: Server, path: str, token: str = "") -> int:
    """The status of a request."""
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    async with client.get(f"http://{server.http_address}{path}", headers=headers) as answer:
        return answer.status


async def answers(client: aiohttp.ClientSession, server: Server, path: str) -> list[int]:
    """The answers to a request for an object of `mine`: without a token, and with each of three."""
    return [await status(client, server, path, who) for who in ("", OTHERS, MINE, OPERATOR)]


async def first_change(client: aiohttp.ClientSession, server: Server, token: str) -> tuple[str, Any]:
    """The role in the feed of a viewer, and its first entries."""
    url = f"http://{server.http_address}{API}/feed"
    async with (
        asyncio.timeout(PATIENCE),
        client.get(url, headers={"Authorization": f"Bearer {token}"}) as answer,
    ):
        viewer = Viewer(answer.content)
        _, hello = await viewer.next()
        return hello["role"], await viewer.change()


async def test_files_need_no_token(served: Server, client: aiohttp.ClientSession) -> None:
    """The files contain no data of an RM, and the page asks for the token."""
    for path in ("/ui", *page.STATIC):
        assert await status(client, served, path) == 200


async def test_data_is_for_its_rm_and_operators_only(served: Server, client: aiohttp.ClientSession) -> None:
    """All other callers are refused, whether the data exists or not."""
    for name in DATA:
        path = f"{API}/partition/[mine]default/{name}"
        wanted = 404 if "ann" in name else 200
        assert await answers(client, served, path) == [401, 403, wanted, wanted]


async def test_data_of_one_rm_needs_its_name(served: Server, client: aiohttp.ClientSession) -> None:
    """An RM that does not name itself is refused; operators are not."""
    for path in (f"{API}/config", f"{API}/events"):
        assert await answers(client, served, f"{path}?rm=mine") == [401, 403, 200, 200]
        assert await status(client, served, path, MINE) == 403


async def test_the_feed_follows_the_viewers_rights(served: Server, client: aiohttp.ClientSession) -> None:
    """An RM gets its own entries, and an operator everything."""
    assert await status(client, served, f"{API}/feed") == 401
    role, mine = await first_change(client, served, MINE)
    assert role == "rm"
    assert [rm["id"] for rm in mine["rms"]] == ["mine"]
    assert "others" not in json.dumps(mine)
    role, everything = await first_change(client, served, OPERATOR)
    assert role == "operator"
    assert {rm["id"] for rm in everything["rms"]} == {"mine", "others"}


async def test_a_search_follows_the_callers_rights(served: Server, client: aiohttp.ClientSession) -> None:
    """Names of other RMs are not returned."""
    url = f"http://{served.http_address}{API}/search?q=root"
    assert await status(client, served, f"{API}/search?q=root") == 401
    for token, wanted in (
        (MINE, {"[mine]default"}),
        (OPERATOR, {"[mine]default", "[others]default"}),
    ):
        async with client.get(url, headers={"Authorization": f"Bearer {token}"}) as answer:
            found = await answer.json()
        assert {hit["partition"] for hit in found["hits"]} == wanted


async def test_viewers_are_notified_of_a_stop(client: aiohttp.ClientSession) -> None:
    """Viewers need not wait for a missing heartbeat."""
    async with serving(http=LOOPBACK) as server:
        answer = await client.get(f"http://{server.http_address}{API}/feed")
        viewer = Viewer(answer.content)
        await viewer.change()
        stopping = asyncio.create_task(server.stop())
        async with asyncio.timeout(PATIENCE):
            while (event := await viewer.next())[0] != "bye":
                pass
        assert event[1]["reason"] == "the server is about to stop"
        answer.close()
        await stopping
