"""Where the server knows tokens HTTP shows nothing to whoever has none, and RMs only their own."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from multidict import CIMultiDict
from yarl import URL

from licorne_server.serving.app import Server
from support.peers.bearing import Bearing
from support.peers.shim import LOOPBACK, Shim, connected, serving

OPERATOR, MINE, OTHERS = ("token-of-" + who * 8 for who in "abc")
MY_PARTITION = "/ws/v1/partition/[mine]default"
OTHER_PARTITION = "/ws/v1/partition/[others]default"
PATHS = ["/queues", "/nodes", "/applications/active", "/usage/users", "/placementrules"]
OF_ONE = [
    "/ws/v1/config",
    "/ws/v1/events/batch",
    "/ws/v1/events/stream",
    "/ws/v1/scheduler/healthcheck",
]
OF_ALL = [
    "/metrics",
    "/ws/v1/metrics",
    "/ws/v1/clusters",
    "/ws/v1/partitions",
    "/ws/v1/history/apps",
    "/ws/v1/history/containers",
    "/ws/v1/scheduler/node-utilizations",
    "/debug/fullstatedump",
    "/ws/v1/fullstatedump",
    "/debug/stack",
    "/debug/pprof/",
    "/debug/pprof/cmdline",
]
PROBES = ["/livez", "/readyz"]
UNKNOWN = ["", "Bearer", f"Bearer {'x' * 30}", f"Basic {OPERATOR}", OPERATOR]


class Reader:
    """Asks a server, with tokens in hand."""

    def __init__(self, server: Server, client: aiohttp.ClientSession) -> None:
        """Over a client without tokens."""
        self._server = server
        self._client = client

    async def ask(self, path: str, *authorizations: str, method: str = "GET") -> int:
        """The status of an answer; a refusal is JSON as all errors are."""
        url = URL(f"http://{self._server.http_address}{path}", encoded=True)
        headers = [("Authorization", value) for value in authorizations]
        async with self._client.request(method, url, headers=CIMultiDict(headers)) as answer:
            assert (answer.headers.get("WWW-Authenticate") == "Bearer") == (answer.status == 401)
            if answer.status in (401, 403) and method != "HEAD":
                refusal = await answer.json()
                assert refusal["status_code"] == refusal["StatusCode"] == answer.status
                assert "others" not in refusal["message"]
            if "events/stream" not in path:
                # To its end: a state dump is sent to one at a time.
                await answer.read()
            return answer.status

    async def asked_by(self, token: str, path: str, method: str = "GET") -> int:
        """The status for the bearer of a token."""
        return await self.ask(path, f"Bearer {token}", method=method)


@pytest.fixture
async def reader(tmp_path: Path) -> AsyncIterator[Reader]:
    """A server that knows the tokens of an operator and of two RMs, which are registered."""
    for name, token in (("mine", MINE), ("others", OTHERS), ("operator", OPERATOR)):
        (tmp_path / name).write_text(token)
    tokens = {name: (tmp_path / name,) for name in ("mine", "others")}
    operators = (tmp_path / "operator",)
    async with (
        serving(http=LOOPBACK, rm_tokens=tokens, operator_tokens=operators) as server,
        connected(server) as channel,
        aiohttp.ClientSession() as client,
    ):
        for name, token in (("others", OTHERS), ("mine", MINE)):
            bearing: Any = Bearing(channel, f"Bearer {token}")
            await Shim(bearing, name).register()
        yield Reader(server, client)


async def test_probes_need_no_token(reader: Reader) -> None:
    """A supervisor has no token, and one that it might have is not looked at."""
    for path in PROBES:
        assert await reader.ask(path) == await reader.ask(path, "Bearer nonsense") == 200


@pytest.mark.parametrize("method", ["GET", "HEAD"])
async def test_nobody_sees_anything_without_a_token(reader: Reader, method: str) -> None:
    """No known token, or two at once, gets 401 on every path, also on one that there is not."""
    paths = [*OF_ALL, *OF_ONE, *(MY_PARTITION + rest for rest in PATHS), "/nothing"]
    for path in paths:
        assert await reader.ask(path, method=method) == 401
    for authorization in UNKNOWN:
        assert await reader.ask("/metrics", authorization, method=method) == 401
    twice = (f"Bearer {OPERATOR}", f"Bearer {OPERATOR}")
    assert await reader.ask("/metrics", *twice, method=method) == 401


async def test_validation_needs_a_token(reader: Reader) -> None:
    """Whoever is known may have a configuration checked: nothing of any RM is shown."""
    path = "/ws/v1/validate-conf"
    assert await reader.ask(path, method="POST") == 401
    assert await reader.asked_by(MINE, path, "POST") == 200


async def test_operator_sees_everything(reader: Reader) -> None:
    """The token of an operator opens every path, of all RMs and of each."""
    named = [f"{path}?rm={name}" for path in OF_ONE for name in ("mine", "others")]
    paths = [each + rest for each in (MY_PARTITION, OTHER_PARTITION) for rest in PATHS]
    for path in (*OF_ALL, *OF_ONE, *named, *paths):
        assert await reader.asked_by(OPERATOR, path) == 200, path
    assert await reader.asked_by(OPERATOR, "/nothing") == 404


async def test_rm_sees_its_own(reader: Reader) -> None:
    """The token of an RM opens the paths that name it."""
    named = [f"{path}?rm=mine" for path in OF_ONE]
    for path in (*named, *(MY_PARTITION + rest for rest in PATHS)):
        assert await reader.asked_by(MINE, path) == 200, path
    assert await reader.asked_by(OTHERS, "/ws/v1/partition/default/queues") == 200


async def test_rm_sees_nothing_of_others(reader: Reader) -> None:
    """Another RM, all RMs, and what is not there are refused alike.

    A name without an RM means the RM that registered first.
    """
    others = [OTHER_PARTITION + rest for rest in PATHS]
    named = [f"{path}?rm={name}" for path in OF_ONE for name in ("others", "nobody", "")]
    ambiguous = [f"{path}?rm=others&rm=mine" for path in OF_ONE]
    all_of_them = [f"{path}?rm=mine" for path in OF_ALL]
    absent = ["/ws/v1/partition/[nobody]default/queues", "/ws/v1/partition/nothing/queues"]
    bare = ["/ws/v1/partition/default/queues"]
    for path in (*others, *named, *ambiguous, *OF_ALL, *OF_ONE, *all_of_them, *absent, *bare):
        assert await reader.asked_by(MINE, path) == 403, path


async def test_the_address_for_metrics_wants_the_same_tokens(tmp_path: Path) -> None:
    """Also where it is plain, on loopback; probes need none there either."""
    (tmp_path / "mine").write_text(MINE)
    (tmp_path / "operator").write_text(OPERATOR)
    async with (
        serving(
            metrics=LOOPBACK,
            rm_tokens={"mine": (tmp_path / "mine",)},
            operator_tokens=(tmp_path / "operator",),
        ) as server,
        aiohttp.ClientSession() as client,
    ):
        base = f"http://{server.metrics_address}"
        for token, expected in (("", 401), (MINE, 403), (OPERATOR, 200)):
            headers = {"Authorization": f"Bearer {token}"} if token else {}
            async with client.get(f"{base}/metrics", headers=headers) as answer:
                assert answer.status == expected
        async with client.get(f"{base}/livez") as answer:
            assert answer.status == 200
