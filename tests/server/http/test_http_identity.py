"""Admission of HTTP requests: identities, host names, and the origins of pages."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from multidict import CIMultiDict
from structlog.testing import capture_logs
from yarl import URL

from licorne_server.assembly.server import Server
from licorne_server.process.settings import Address
from support.peers.shim import LOOPBACK, Shim, connected, serving
from support.peers.tls import Bearing, https, tls

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
    """A reader with several tokens for requests to a server."""

    def __init__(self, server: Server, client: aiohttp.ClientSession) -> None:
        """Use a client without tokens."""
        self._server = server
        self._client = client

    async def ask(self, path: str, *authorizations: str, method: str = "GET") -> int:
        """The status of an answer; a refusal has the JSON of all errors."""
        url = URL(f"http://{self._server.http_address}{path}", encoded=True)
        headers = [("Authorization", value) for value in authorizations]
        async with self._client.request(method, url, headers=CIMultiDict(headers)) as answer:
            assert (answer.headers.get("WWW-Authenticate") == "Bearer") == (answer.status == 401)
            if answer.status in (401, 403) and method != "HEAD":
                refusal = await answer.json()
                assert refusal["status_code"] == refusal["StatusCode"] == answer.status
                assert "others" not in refusal["message"]
            if "events/stream" not in path:
                # Read to the end, because only one state dump runs at a time.
                await answer.read()
            return answer.status

    async def asked_by(self, token: str, path: str, method: str = "GET") -> int:
        """The status for the bearer of a token."""
        return await self.ask(path, f"Bearer {token}", method=method)


@pytest.fixture
async def reader(tmp_path: Path) -> AsyncIterator[Reader]:
    """A server with tokens of an operator and of two registered RMs."""
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
    """A probe needs no token, and a token with it is not checked."""
    for path in PROBES:
        assert await reader.ask(path) == await reader.ask(path, "Bearer nonsense") == 200


@pytest.mark.parametrize("method", ["GET", "HEAD"])
async def test_requests_without_a_valid_token_are_refused(reader: Reader, method: str) -> None:
    """No valid token, or two at once, gets 401 on every path, even on an unknown one."""
    paths = [*OF_ALL, *OF_ONE, *(MY_PARTITION + rest for rest in PATHS), "/nothing"]
    for path in paths:
        assert await reader.ask(path, method=method) == 401
    for authorization in UNKNOWN:
        assert await reader.ask("/metrics", authorization, method=method) == 401
    twice = (f"Bearer {OPERATOR}", f"Bearer {OPERATOR}")
    assert await reader.ask("/metrics", *twice, method=method) == 401


async def test_validation_needs_any_token(reader: Reader) -> None:
    """Any authenticated caller may validate a configuration, as no data of an RM is returned."""
    path = "/ws/v1/validate-conf"
    assert await reader.ask(path, method="POST") == 401
    assert await reader.asked_by(MINE, path, "POST") == 200


async def test_an_operator_may_read_everything(reader: Reader) -> None:
    """The token of an operator opens every path, of all RMs and of each."""
    named = [f"{path}?rm={name}" for path in OF_ONE for name in ("mine", "others")]
    paths = [each + rest for each in (MY_PARTITION, OTHER_PARTITION) for rest in PATHS]
    for path in (*OF_ALL, *OF_ONE, *named, *paths):
        assert await reader.asked_by(OPERATOR, path) == 200, path
    assert await reader.asked_by(OPERATOR, "/nothing") == 404


async def test_an_rm_may_read_its_own_data(reader: Reader) -> None:
    """The token of an RM opens the paths that name the RM."""
    named = [f"{path}?rm=mine" for path in OF_ONE]
    for path in (*named, *(MY_PARTITION + rest for rest in PATHS)):
        assert await reader.asked_by(MINE, path) == 200, path
    assert await reader.asked_by(OTHERS, "/ws/v1/partition/default/queues") == 200


async def test_an_rm_may_not_read_data_of_others(reader: Reader) -> None:
    """Another RM, all RMs, and missing objects are refused alike.

    A name without an RM means the first registered RM.
    """
    others = [OTHER_PARTITION + rest for rest in PATHS]
    named = [f"{path}?rm={name}" for path in OF_ONE for name in ("others", "nobody", "")]
    ambiguous = [f"{path}?rm=others&rm=mine" for path in OF_ONE]
    all_of_them = [f"{path}?rm=mine" for path in OF_ALL]
    absent = ["/ws/v1/partition/[nobody]default/queues", "/ws/v1/partition/nothing/queues"]
    bare = ["/ws/v1/partition/default/queues"]
    for path in (*others, *named, *ambiguous, *OF_ALL, *OF_ONE, *all_of_them, *absent, *bare):
        assert await reader.asked_by(MINE, path) == 403, path


async def test_the_address_for_metrics_requires_the_same_tokens(tmp_path: Path) -> None:
    """Metrics need a token even on a plain address on loopback; probes need none."""
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


OPEN = (
    "/ui",
    "/ui/api/feed",
    "/ui/api/config?rm=x",
    "/ws/v1/partitions",
    "/metrics",
    "/debug/stack",
)
MISDIRECTED = 421


async def status(server: Server, path: str, host: str | None, address: str = "") -> int:
    """The status of a request under a host name, or without one."""
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
async def test_addresses_and_localhost_are_accepted(host: str) -> None:
    """Names that no other site can have are accepted, with any port."""
    async with serving(http=LOOPBACK) as server:
        assert await status(server, "/ws/v1/partitions", host) == 200


@pytest.mark.parametrize(
    "host",
    ["evil.example", "evil.example:9080", "localhost.evil.example", "127.0.0.1.evil.example",
     "evillocalhost", "[evil]", "", ":9080"],
)  # fmt: skip
async def test_other_host_names_are_refused(host: str) -> None:
    """Another name is refused on every path except those of probes."""
    async with serving(http=LOOPBACK, metrics=LOOPBACK) as server:
        for path in OPEN:
            assert await status(server, path, host) == MISDIRECTED, path
        assert await status(server, "/metrics", host, server.metrics_address) == MISDIRECTED
        for path in PROBES:
            assert await status(server, path, host) == 200


async def test_the_refusal_of_a_host_name_has_the_setting() -> None:
    """The refusal has the setting, and the log has the name, both cut to a bounded length."""
    async with serving(http=LOOPBACK) as server, aiohttp.ClientSession() as client:
        url = f"http://{server.http_address}/ui"
        with capture_logs() as lines:
            async with client.get(url, headers={"Host": "proxy.example:8080"}) as answer:
                message = (await answer.json())["message"]
        assert "have proxy.example among its access.http_hosts" in message
        assert [line["host"] for line in lines if line["event"] == "unknown host"]
        async with client.get(url, headers={"Host": "x" * 5_000}) as answer:
            assert len(await answer.text()) < 2_000


async def test_configured_host_names_are_accepted() -> None:
    """Configured names are accepted in any case of letters, and others are not, unless all are."""
    async with serving(http=LOOPBACK, http_hosts=frozenset({"Ui.Example"})) as server:
        assert await status(server, "/ui", "ui.example:8443") == 200
        assert await status(server, "/ui", "other.example") == MISDIRECTED
    async with serving(http=LOOPBACK, http_hosts=frozenset({"https://Ui.Example:8443"})) as server:
        assert await status(server, "/ui", "ui.example") == 200
    async with serving(http=LOOPBACK, http_hosts=frozenset({"*"})) as server:
        assert await status(server, "/ui", "whatever.example") == 200


async def test_host_names_are_not_checked_where_identities_are_required(tmp_path: Path) -> None:
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


async def test_host_names_are_not_checked_off_loopback() -> None:
    """In containers and clusters a server has names that it does not know."""
    everywhere = Address(host="0.0.0.0", port=0)
    async with serving(http=everywhere, insecure=True) as server:
        assert await status(server, "/ws/v1/partitions", "licorne:9080") == 200


ORIGIN, OTHER_ORIGIN = "https://ui.example:8443", "https://elsewhere.example"
ALLOW = "Access-Control-Allow-Origin"


@pytest.fixture
async def client() -> AsyncIterator[aiohttp.ClientSession]:
    """A client over plain HTTP."""
    async with aiohttp.ClientSession() as client:
        yield client


async def answer(
    client: aiohttp.ClientSession, server: Server, path: str, method: str = "GET", **headers: str
) -> tuple[int, dict[str, str]]:
    """The status and headers of an answer."""
    names = {name.replace("_", "-"): value for name, value in headers.items()}
    url = f"http://{server.http_address}{path}"
    async with client.request(method, url, headers=names) as got:
        await got.read()
        return got.status, dict(got.headers)


async def test_no_other_origin_may_read_by_default(client: aiohttp.ClientSession) -> None:
    """Without configured origins no answer allows a page of another one, and preflights are refused."""
    async with serving(http=LOOPBACK) as server:
        status, headers = await answer(client, server, "/ws/v1/partitions", Origin=ORIGIN)
        assert (status, ALLOW in headers) == (200, False)
        asking = {"Origin": ORIGIN, "Access_Control_Request_Method": "GET"}
        status, headers = await answer(client, server, "/ws/v1/partitions", "OPTIONS", **asking)
        assert (status, ALLOW in headers) == (405, False)


async def test_configured_origins_may_read(client: aiohttp.ClientSession) -> None:
    """Answers, including long, compressed and failed ones, name the caller's origin if it is listed."""
    async with serving(http=LOOPBACK, cors_origins=frozenset({ORIGIN})) as server:
        for path, expected in (("/ws/v1/partitions", 200), ("/metrics", 200), ("/nothing", 404)):
            status, headers = await answer(client, server, path, Origin=ORIGIN)
            assert (status, headers[ALLOW]) == (expected, ORIGIN)
            assert "Origin" in headers["Vary"].split(", ")
            status, headers = await answer(client, server, path, Origin=OTHER_ORIGIN)
            assert (status, ALLOW in headers) == (expected, False)
            assert "Origin" in headers["Vary"].split(", ")
        _, headers = await answer(client, server, "/ws/v1/partitions")
        assert ALLOW not in headers


async def test_a_star_allows_any_origin(client: aiohttp.ClientSession) -> None:
    """With ``*`` every page may read; certificates and cookies are never requested."""
    async with serving(http=LOOPBACK, cors_origins=frozenset({"*"})) as server:
        _, headers = await answer(client, server, "/ws/v1/clusters", Origin=OTHER_ORIGIN)
        assert headers[ALLOW] == "*"
        assert "Access-Control-Allow-Credentials" not in headers


async def test_preflights_are_answered(client: aiohttp.ClientSession, tmp_path: Path) -> None:
    """A preflight needs no token, and the answer that follows does."""
    (tmp_path / "token").write_text("of-an-operator-" * 2)
    async with serving(
        http=LOOPBACK, cors_origins=frozenset({ORIGIN}), operator_tokens=(tmp_path / "token",)
    ) as server:
        path = "/ws/v1/validate-conf"
        asking = {
            "Access_Control_Request_Method": "POST",
            "Access_Control_Request_Headers": "authorization",
        }
        status, headers = await answer(client, server, path, "OPTIONS", Origin=ORIGIN, **asking)
        assert (status, headers[ALLOW]) == (204, ORIGIN)
        assert "POST" in headers["Access-Control-Allow-Methods"]
        assert "Authorization" in headers["Access-Control-Allow-Headers"]
        status, headers = await answer(client, server, path, "OPTIONS", Origin=OTHER_ORIGIN, **asking)
        assert (status, ALLOW in headers) == (401, False)
        status, headers = await answer(client, server, path, "POST", Origin=ORIGIN)
        assert (status, headers[ALLOW]) == (401, ORIGIN)
