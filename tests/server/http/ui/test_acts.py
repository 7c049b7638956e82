"""Acts of operators on the page: their answers, rights and refusals."""

import asyncio
import json
import os
import signal
from collections.abc import AsyncIterator, Iterable
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from structlog.testing import capture_logs

from licorne_core.values.ids import RmId
from licorne_server.assembly.server import Server
from licorne_server.http.pages import ACT
from licorne_server.http.ui.acts import ACTS, Refused, is_own, read
from support.member_town import two_members
from support.peers.shim import LOOPBACK, Shim, ask, connected, eventually, new_allocations, serving
from support.peers.tls import Bearing
from support.server.reports import audited

OPERATOR, MINE = "token-of-aaaaaaaa", "token-of-bbbbbbbb"
CONFIG = (
    "partitions:\n  - name: default\n    queues:\n      - name: root\n        submitacl: '*'\n"
    "        queues: [{name: default}, {name: more}]\n"
)


@pytest.fixture
async def client() -> AsyncIterator[aiohttp.ClientSession]:
    """A client without headers of its own."""
    async with aiohttp.ClientSession() as client:
        yield client


@pytest.fixture
async def server() -> AsyncIterator[Server]:
    """A server with an RM that has a node with one allocation."""
    async with serving(http=LOOPBACK) as server, connected(server) as channel:
        shim = Shim(channel)
        allocations, _, _ = await shim.set_up()
        await shim.ask(allocations, ask("k"))
        await new_allocations(allocations, 1)
        yield server


async def done(client: aiohttp.ClientSession, server: Server, **fields: object) -> tuple[int, Any]:
    """The status and the answer of an act on the RM."""
    return await posted(client, server, json.dumps({"rm": "rm", **fields}))


async def posted(
    client: aiohttp.ClientSession,
    server: Server,
    body: str,
    **headers: str,
) -> tuple[int, Any]:
    """The status and the answer to a body."""
    given = {"Content-Type": "application/json", **{k.replace("_", "-"): v for k, v in headers.items()}}
    url = f"http://{server.http_address}{ACT}"
    async with client.post(url, data=body, headers=given) as answer:
        return answer.status, await answer.json()


async def rows(client: aiohttp.ClientSession, server: Server, path: str, rm: str = "rm") -> Any:
    """The answer of one of the page's lists about the partition."""
    url = f"http://{server.http_address}/ui/api/partition/[{rm}]default/{path}"
    async with client.get(url) as answer:
        return await answer.json()


async def test_nodes_are_cordoned_drained_uncordoned(client: aiohttp.ClientSession, server: Server) -> None:
    """The rows of the page and the node itself have the operator, and the progress of a drain."""
    act: dict[str, Any] = {"name": "n0", "message": "disk"}
    assert await done(client, server, act="cordon", **act) == (200, {"changed": True, "allocations": 1})
    (row,) = (await rows(client, server, "nodes?state=cordoned"))["rows"]
    mark = row["cordon"]
    assert (mark["by"], mark["message"], row["drain"]) == ("127.0.0.1", "disk", None)
    assert 0 < mark["time"] < 1e13
    assert await done(client, server, act="drain", **act) == (200, {"allocations": 1, "exempt": 0})
    node = await rows(client, server, "node/n0")
    assert (node["drain"]["allocations"], node["drain"]["remaining"]) == (1, 1)
    assert (await done(client, server, act="uncordon", name="n0"))[1]["changed"]
    assert (await rows(client, server, "nodes?state=cordoned"))["rows"] == []


async def test_acts_on_queues_apps_and_configurations(client: aiohttp.ClientSession, server: Server) -> None:
    """Each act has the answer of its method."""
    stop = await done(client, server, act="stop", name="root", message="why")
    assert stop == (200, {"changed": True, "state": "Stopped"})
    queue = await rows(client, server, "queue/root")
    assert (queue["stop"]["by"], queue["stop"]["message"]) == ("127.0.0.1", "why")
    assert (await done(client, server, act="start", name="root"))[1]["state"] == "Active"
    status, plan = await done(client, server, act="plan", config=CONFIG)
    assert (status, plan["changed"], [queue["path"] for queue in plan["queues"]]) == (
        200,
        True,
        ["root", "root.default", "root.more"],
    )
    status, applied = await done(client, server, act="apply", config=CONFIG, message="more")
    assert (status, applied["changed"], applied["revision"]) == (200, True, "2")
    status, back = await done(client, server, act="rollback", message="less")
    assert (status, back["revision"]) == (200, "3")
    held = await done(client, server, act="hold", name="app", message="look")
    assert held == (200, {"changed": True, "asks": 0, "allocations": 1})
    app = await rows(client, server, "application/app")
    assert (app["hold"]["by"], app["hold"]["message"]) == ("127.0.0.1", "look")
    assert (await done(client, server, act="resume", name="app"))[1]["changed"]
    first = await done(client, server, act="priority", name="app", priority=7)
    assert (first[0], first[1]["operatorPriority"]) == (200, 7)
    status, moved = await done(client, server, act="queue", name="app", queue="root.more")
    assert (status, "allocation" in moved["error"]) == (409, True)
    assert await done(client, server, act="kill", name="app", message="over") == (
        200,
        {"allocations": 1, "asks": 0},
    )


async def test_applications_are_held_and_changed(client: aiohttp.ClientSession, server: Server) -> None:
    """The rows of the page have the operator, and an impossible move is refused with its reason."""
    act: dict[str, Any] = {"name": "app", "message": "data"}
    held = await done(client, server, act="hold", **act)
    assert held == (200, {"changed": True, "asks": 0, "allocations": 1})
    (row,) = (await rows(client, server, "applications"))["rows"]
    assert (row["hold"]["by"], row["hold"]["message"], row["priority"]) == ("127.0.0.1", "data", None)
    status, answer = await done(client, server, act="priority", priority=0, **act)
    assert (status, answer["changed"], answer["operatorPriority"]) == (200, True, 0)
    status, answer = await done(client, server, act="queue", queue="root.other", **act)
    assert (status, answer["code"]) == (404, "NOT_FOUND")
    assert (await done(client, server, act="resume", name="app"))[1]["changed"]
    app = await rows(client, server, "application/app")
    assert (app["hold"], app["priority"], app["change"]["message"]) == (None, 0, "data")
    _, answer = await done(client, server, act="priority", reset_priority=True, **act)
    assert "operatorPriority" not in answer


async def test_an_act_is_audited_like_the_call(client: aiohttp.ClientSession, server: Server) -> None:
    """The audit has the caller, the request, and the outcome."""
    with capture_logs() as lines:
        await done(client, server, act="cordon", name="n0", message="disk")
        await done(client, server, act="cordon", name="nowhere")
    told = [(line["by"], line["action"], line["node_id"], line["outcome"]) for line in audited(lines)]
    assert told == [
        ("127.0.0.1", "set node schedulable", "n0", "done"),
        ("127.0.0.1", "set node schedulable", "nowhere", "NOT_FOUND"),
    ]


async def test_a_failed_act_has_the_reason(client: aiohttp.ClientSession, server: Server) -> None:
    """Status and code are those of the call, and a configuration has its problems."""
    status, answer = await done(client, server, act="drain", name="nowhere")
    assert (status, answer["code"]) == (404, "NOT_FOUND")
    assert answer["error"] == "node nowhere not found in partition [rm]default"
    status, answer = await done(client, server, act="drain", name="n0", deadline_seconds=10**6)
    assert (status, answer["problems"][0]["field"]) == (400, "deadline_seconds")
    status, answer = await posted(client, server, json.dumps({"act": "stop", "rm": "other", "name": "root"}))
    assert (status, answer["code"]) == (409, "RM_NOT_REGISTERED")
    status, answer = await done(client, server, act="plan", config="partitions: []")
    assert (status, answer["code"], len(answer["problems"])) == (400, "CONFIG_INVALID", 1)


async def test_acts_reach_the_rms_of_other_members(client: aiohttp.ClientSession) -> None:
    """The page of any member acts on any RM, and reports a failure like the owner's page."""
    async with two_members() as town:
        act = {"act": "cordon", "rm": "right", "name": "node-of-right"}
        assert await done(client, town.left, **act) == (200, {"changed": True, "allocations": 0})
        (row,) = (await rows(client, town.left, "nodes?state=cordoned", rm="right"))["rows"]
        assert (row["id"], row["cordon"]["by"]) == ("node-of-right", "127.0.0.1")
        for wrong in ({"act": "drain", "name": "nowhere"}, {"act": "plan", "config": "partitions: []"}):
            theirs, ours = [await done(client, at, rm="right", **wrong) for at in (town.right, town.left)]
            assert theirs == ours
            assert theirs[0] in (400, 404)


@pytest.mark.parametrize(
    ("headers", "status", "code"),
    [
        ({"Content_Type": "text/plain"}, 415, "CONTENT_TYPE"),
        ({"Content_Type": "application/x-www-form-urlencoded"}, 415, "CONTENT_TYPE"),
        ({"Origin": "http://evil.example"}, 403, "FOREIGN_ORIGIN"),
        ({"Origin": "null"}, 403, "FOREIGN_ORIGIN"),
    ],
)
async def test_pages_of_other_sites_may_not_act(
    client: aiohttp.ClientSession, server: Server, headers: dict[str, str], status: int, code: str
) -> None:
    """Requests by a form, or of a foreign origin, are refused and do nothing."""
    body = json.dumps({"act": "cordon", "rm": "rm", "name": "n0"})
    got, answer = await posted(client, server, body, **headers)
    assert (got, answer["code"]) == (status, code)
    assert (await rows(client, server, "nodes?state=cordoned"))["rows"] == []
    own = f"http://{server.http_address}"
    assert (await posted(client, server, body, Origin=own))[0] == 200


NAME = "licorne.example"


@pytest.mark.parametrize(
    ("origin", "asked", "names", "known", "anybody"),
    [
        (f"https://{NAME}", "licorne-0:9080", {NAME}, True, True),
        (f"http://{NAME}", "licorne-0:9080", {NAME}, True, True),
        (f"http://{NAME}", "licorne-0:9080", {f"https://{NAME}"}, False, False),
        (f"https://{NAME}", "licorne-0:9080", {f"HTTPS://{NAME}:443"}, True, True),
        (f"https://{NAME}:8443", "licorne-0:9080", {NAME}, False, False),
        (f"https://{NAME}:8443", "licorne-0:9080", {f"{NAME}:8443"}, True, True),
        (f"http://{NAME}:8888", f"{NAME}:9080", {NAME}, False, False),
        (f"https://{NAME}:8443", f"{NAME}:8443", {NAME}, True, True),
        ("http://other.example", "licorne-0:9080", {NAME}, False, False),
        (f"https://{NAME}", NAME, (), True, False),
        (f"https://{NAME}", NAME, {"*"}, True, False),
        (f"https://{NAME}", NAME, {"*", NAME}, True, True),
        ("http://other.example", "localhost", {"*"}, False, False),
        ("http://localhost:8000", "localhost:8000", (), True, True),
        ("http://localhost:8000", "localhost:9080", {"*"}, False, False),
        ("http://10.1.2.3:9080", "10.1.2.3:9080", (), True, True),
        ("http://[::1]:9080", "[::1]:9080", (), True, True),
        ("null", "", {"*"}, False, False),
    ],
)
def test_origins_of_the_server_may_act(
    origin: str, asked: str, names: Iterable[str], known: bool, anybody: bool
) -> None:
    """The name of a proxy is allowed with its port; without identities no site may use it."""
    for identified, is_ours in ((True, known), (False, anybody)):
        assert is_own(origin, asked, frozenset(names), identified=identified, secure=False) is is_ours


@pytest.mark.parametrize(("scheme", "own"), [("http", False), ("https", True)])
def test_a_plain_page_may_not_act_on_a_server_with_tls(scheme: str, own: bool) -> None:
    """A service for plain HTTP on the name's port may not act on the server behind TLS."""
    assert is_own(f"{scheme}://{NAME}", NAME, frozenset(), identified=True, secure=True) is own


async def test_a_wildcard_allows_no_acts(client: aiohttp.ClientSession) -> None:
    """Under `*` a page of any name may read; only one of this server's names or addresses may act."""
    body = json.dumps({"act": "cordon", "rm": "rm", "name": "n0"})
    async with serving(http=LOOPBACK, http_hosts=frozenset({"*"})) as server, connected(server) as channel:
        await Shim(channel).set_up()
        evil = {"Host": "evil.example", "Origin": "http://evil.example"}
        assert (await posted(client, server, body, **evil))[0] == 403
        assert (await posted(client, server, body, Origin=f"http://{server.http_address}"))[0] == 200


@pytest.mark.parametrize(
    ("body", "why"),
    [
        (b"", "the body is no JSON"),
        (b"[" * 100_000, "the body is no JSON"),
        (b"[]", "the body is no JSON object"),
        (b"{}", "act is missing or unknown: "),
        (b'{"act": ["cordon"]}', "act is "),
        (b'{"act": "cordon", "nodes": 1}', "cordon: "),
        (b'{"act": "cordon", "name": {}}', "cordon: "),
        (b'{"act": "drain", "deadline_seconds": -1}', "drain: "),
        (b'{"act": "plan", "message": "x"}', "plan takes no message"),
        (b'{"act": "plan", "rm": "rm"}', "plan: config is empty"),
        (b'{"act": "apply", "rm": "rm", "config": ""}', "apply: config is empty"),
    ],
)
def test_a_body_without_an_act_is_refused(body: bytes, why: str) -> None:
    """The reason names the field."""
    with pytest.raises(Refused) as refused:
        read(body)
    assert str(refused.value).startswith(why)


def test_a_fixed_field_of_an_act_cannot_be_given() -> None:
    """A field that the act itself sets cannot have another value."""
    for name, one in ACTS.items():
        given = {key: not val for key, val in one.fixed.items()} | dict.fromkeys(
            filter(None, [one.needed]), "x"
        )
        _, message = read(json.dumps({"act": name, **given}).encode())
        assert {key: getattr(message, key) for key in one.fixed} == dict(one.fixed)


async def test_only_operators_may_act(tmp_path: Path, client: aiohttp.ClientSession) -> None:
    """As over gRPC an RM may not act, not even on its own data; nobody may without a token."""
    for name, token in (("rm", MINE), ("operator", OPERATOR)):
        (tmp_path / name).write_text(token)
    async with (
        serving(
            http=LOOPBACK, rm_tokens={"rm": (tmp_path / "rm",)}, operator_tokens=(tmp_path / "operator",)
        ) as server,
        connected(server) as channel,
    ):
        bearing: Any = Bearing(channel, f"Bearer {MINE}")
        await Shim(bearing).set_up()
        body = json.dumps({"act": "cordon", "rm": "rm", "name": "n0"})
        assert (await posted(client, server, body))[0] == 401
        status, answer = await posted(client, server, body, Authorization=f"Bearer {MINE}")
        assert (status, answer["code"]) == (403, "NOT_ALLOWED")
        status, answer = await posted(client, server, body, Authorization=f"Bearer {OPERATOR}")
        assert (status, answer["changed"]) == (200, True)


@pytest.mark.pure
async def test_a_trial_ends_when_its_caller_leaves(
    client: aiohttp.ClientSession, server: Server, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A closed page leaves no copy of the core behind."""
    begun = tmp_path / "pid"

    def never(*_: object) -> bytes:
        begun.with_suffix(".part").write_text(str(os.getpid()))
        begun.with_suffix(".part").rename(begun)
        while True:
            signal.pause()

    monkeypatch.setattr("licorne_server.services.admin.plans._plan_start", never)
    monkeypatch.setattr("licorne_server.engine.copies.DEADLINE", 3600.0)
    async with connected(server) as channel:
        shim = Shim(channel)
        await shim.ask(shim.open("UpdateAllocation"), ask("large", vcore=10**9))
        await eventually(lambda: server.scheduler.views.partitions(RmId("rm"))[0].pending_asks == 1)
        trying = asyncio.ensure_future(
            done(client, server, act="try", applicationId="app", allocationKey="large")
        )
        await eventually(begun.exists)
        trying.cancel()
        await eventually(lambda: not Path(f"/proc/{begun.read_text()}").exists())
