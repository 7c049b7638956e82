"""HTTP requests on one member for the RMs of all: passed on to owners, or merged."""

import asyncio
import json
from collections.abc import AsyncIterator

import aiohttp
import pytest

from licorne import Ask
from licorne_core.values.ids import RmId
from licorne_server.reads import members as http_members
from licorne_server.reads.history.recorder import Sample
from licorne_server.reads.members import MISSING
from licorne_server.store.coordination.ownership import Counts
from licorne_server.store.coordination.pb import members_pb2 as pb
from licorne_server.store.coordination.store import Member, MemberId
from licorne_server.store.coordination.store import Ownership as Record
from licorne_server.wire.errors import unavailable
from support.member_town import Town, filled, two_members
from support.members import Seat, Table, deployment, member
from support.patience import PATIENCE
from support.peers.shim import eventually

QUICK = 2.0
"""Seconds in which a member has to answer before it counts as missing."""

HEAD = pb.ReadHead(status=200).SerializeToString()
"""The head of an answer."""

PARTS = (
    "/ws/v1/partition/[left]default/queues",
    "/ws/v1/partition/[left]default/queue/root?subtree",
    "/ws/v1/partition/[left]default/nodes",
    "/ws/v1/partition/[left]default/node/~.",
    "/ws/v1/partition/%5Bleft%5Ddefault/applications/active?status=running",
    "/ws/v1/partition/[left]default/application/job",
    "/ws/v1/partition/[left]default/usage/users",
    "/ws/v1/partition/[left]default/placementrules",
    "/ws/v1/partition/[left]default/application/nobody",
    "/ws/v1/config?rm=left",
    "/ws/v1/events/batch?rm=left&count=3",
    "/ws/v1/scheduler/healthcheck?rm=left",
    "/ui/api/partition/[left]default/applications?q=job",
    "/ui/api/partition/[left]default/nodes?limit=5",
    "/ui/api/partition/[left]default/heat",
    "/ui/api/partition/[left]default/application/job/asks",
    "/ui/api/config?rm=left",
    "/ui/api/events?rm=left&limit=2",
)


FIGURES = {
    "members": 2.0,
    "rms_owned": 1.0,
    "rms_moved_total": 3.0,
    "member_renewals_total": 5.0,
    "member_renewal_failures_total": 2.0,
    "member_fenced_total": 1.0,
}


@pytest.fixture
async def town() -> AsyncIterator[Town]:
    """Two members without identities."""
    async with two_members() as town:
        yield town


@pytest.mark.parametrize("path", PARTS)
async def test_every_member_answers_for_every_rm(town: Town, path: str) -> None:
    """Status, kind and body are those of the owner, errors included."""
    status, headers, body = await town.ask(town.right, path)
    expected, theirs, owners = await town.ask(town.left, path)
    assert (status, headers["Content-Type"]) == (expected, theirs["Content-Type"])
    for changing in (b'"refresh"', b'"Time"'):
        owners, body = (part.partition(changing)[0] for part in (owners, body))
    assert body == owners


async def test_a_compressed_answer_is_passed_on_unchanged(town: Town) -> None:
    """The bytes of the owner keep their coding, except for readers that do not accept it."""
    path = "/ws/v1/partition/[left]default/queues"
    _, plain, text = await town.ask(town.right, path)
    _, packed, body = await town.ask(town.right, path, Accept_Encoding="gzip")
    assert "Content-Encoding" not in plain
    assert packed["Content-Encoding"] == "gzip"
    assert body[:2] == b"\x1f\x8b"
    assert json.loads(text)["queuename"] == "root"


async def test_a_bare_name_means_the_same_partition_on_every_member(town: Town) -> None:
    """A bare name means the partition of the RM whose id comes first in the deployment."""
    async with filled(town.right, "before"):
        for server in (town.left, town.right):
            [first] = await town.get(server, "/ws/v1/partition/default/applications/active")
            assert first["partition"] == "[before]default"
            for path in ("/ws/v1/config", "/ws/v1/events/batch?count=1", "/ui/api/events?limit=1"):
                named = f"{path}{'&' if '?' in path else '?'}rm=before"
                assert (await town.ask(server, path))[::2] == (await town.ask(server, named))[::2]
            status, _, body = await town.ask(server, "/ws/v1/partition/nowhere/queues")
            assert (status, b"nowhere" in body) == (404, True)
    lost = Member(id=MemberId("lost"), name="lost", address="", http="")
    town.table.members[lost.id] = lost
    status, _, body = await town.ask(town.left, "/ws/v1/partition/other/queues")
    assert (status, b"name an RM" in body) == (503, True)


async def test_lists_include_the_rms_of_all_members(town: Town) -> None:
    """Lists are in order of the members' names, with full names, and equal on all members."""
    for server in (town.left, town.right):
        clusters = await town.get(server, "/ws/v1/clusters")
        assert [row["clusterName"] for row in clusters] == ["left", "right"]
        partitions = await town.get(server, "/ws/v1/partitions")
        assert [row["name"] for row in partitions] == ["[left]default", "[right]default"]
        nodes = await town.get(server, "/ws/v1/scheduler/node-utilizations")
        assert [row["clusterId"] for row in nodes] == ["left", "right"]


async def test_reasons_are_summed_over_all_members(town: Town) -> None:
    """The totals are the same on all members, over REST and for the page, with times in milliseconds."""
    async with filled(town.left, "more") as client:
        await client.ask([Ask(key="wide", application_id="job", resources={"vcore": 9_000})])
        views = town.left.scheduler.views
        await eventually(lambda: views.partition(views.resolve("[more]default")).pending_asks)
        for server in (town.left, town.right):
            answer = await town.get(server, "/ws/v1/reasons?queue=root.runs")
            shown = await town.get(server, "/ui/api/reasons?partition=[more]default")
            assert answer["asks"] == shown["asks"] == 1
            assert answer["reasons"] == shown["reasons"]
            [place] = answer["reasons"][0]["firstQueues"]
            assert (place["partition"], answer["reasons"][0]["code"]) == ("[more]default", "NEVER_FITS")
            assert shown["time"] < answer["time"] // 10**5


async def test_a_list_has_no_gap_for_a_member_without_rms() -> None:
    """Empty parts of this or another member cause no additional comma."""
    async with deployment("a", "b", "c") as servers, aiohttp.ClientSession() as client:
        town = Town(servers[:2], client)
        assert await town.get(servers[0], "/ws/v1/partitions") == []
        async with filled(servers[1], "right"):
            for server in servers:
                [row] = await town.get(server, "/ws/v1/partitions")
                assert row["name"] == "[right]default"


async def test_the_history_is_summed_over_all_members(town: Town) -> None:
    """At each time of the longest history the latest counts of all members are added."""
    minute = 60.0
    town.left.periodics.history.samples.extend(Sample(1000 + n * minute, n, 10 * n) for n in range(4))
    town.right.periodics.history.samples.extend(Sample(1100 + n * minute, 100, 1) for n in range(2))
    for server in (town.left, town.right):
        apps = await town.get(server, "/ws/v1/history/apps")
        counts = [row["totalApplications"] for row in apps if row["timestamp"] < 2000 * 10**9]
        assert counts == ["0", "1", "102", "103"]
        containers = await town.get(server, "/ws/v1/history/containers")
        assert [row["totalContainers"] for row in containers][:4] == ["0", "10", "21", "31"]


async def test_a_search_finds_the_names_of_all_members(town: Town) -> None:
    """The hits of all members are in one list."""
    for server in (town.left, town.right):
        found = await town.get(server, "/ui/api/search?q=node-of")
        assert found["complete"]
        assert {hit["name"] for hit in found["hits"]} == {"node-of-left", "node-of-right"}


async def test_a_state_dump_includes_those_of_other_members(town: Town) -> None:
    """The dump of a member has the dumps of the others under their names."""
    dump = await town.get(town.right, "/debug/fullstatedump")
    assert [row["name"] for row in dump["partitions"]] == ["[right]default"]
    assert dump["missingMembers"] == []
    [(name, other)] = dump["members"].items()
    assert name == "a"
    assert [row["name"] for row in other["partitions"]] == ["[left]default"]
    assert "members" not in other
    of_one = await town.get(town.right, "/debug/fullstatedump?rm=left")
    assert [row["name"] for row in of_one["partitions"]] == ["[left]default"]


async def test_an_event_stream_is_passed_on(town: Town) -> None:
    """Events of an RM can be read on every member as they happen, until its owner hands it over."""
    url = f"http://{town.right.http_address}/ws/v1/events/stream?rm=left&count=1"
    async with aiohttp.ClientSession() as client, client.get(url) as answer:
        assert "InstanceUUID" in json.loads(await answer.content.readline())
        assert "objectID" in json.loads(await answer.content.readline())
        record = town.table.rms[RmId("left")]
        town.table.rms[RmId("left")] = Record(
            rm_id=RmId("left"), owner=MemberId("id-of-b"), epoch=record.epoch + 1
        )
        last = json.loads(await answer.content.readline())
        assert (last["status_code"], "by another member now" in last["message"]) == (503, True)
        assert await answer.content.read() == b""
        town.table.rms[RmId("left")] = record


@pytest.fixture
async def hanging() -> AsyncIterator[str]:
    """The address of a listener that accepts connections and stays silent."""
    writers = []

    async def take(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writers.append(writer)

    listener = await asyncio.start_server(take, "127.0.0.1", 0)
    host, port = listener.sockets[0].getsockname()
    yield f"{host}:{port}"
    listener.close()
    for writer in writers:
        writer.close()


async def test_a_member_without_http_is_included_by_others() -> None:
    """RMs of a member without HTTP are included in the answers of members that have HTTP."""
    table = Table()
    async with (
        member(table, "a", http=None) as left,
        member(table, "b") as right,
        aiohttp.ClientSession() as client,
        filled(left, "left"),
    ):
        town = Town([left, right], client)
        assert [row["name"] for row in await town.get(right, "/ws/v1/partitions")] == ["[left]default"]
        assert (await town.get(right, "/ws/v1/partition/[left]default/queues"))["queuename"] == "root"


@pytest.mark.parametrize("gone", ["hangs", "is gone"])
async def test_a_member_that_does_not_answer_is_named(
    town: Town, hanging: str, monkeypatch: pytest.MonkeyPatch, gone: str
) -> None:
    """Lists are answered in bounded time and name it in a header; its objects are a 503."""
    # A member that hangs must be distinguished from others on a slow machine.
    monkeypatch.setattr(http_members, "HEAD_SECONDS", QUICK if gone == "hangs" else PATIENCE)
    address = hanging if gone == "hangs" else "127.0.0.1:9"
    lost = Member(id=MemberId("lost"), name="lost", address=address, http="")
    town.table.members[lost.id] = lost
    town.table.rms[RmId("far")] = Record(rm_id=RmId("far"), owner=lost.id, epoch=1)
    status, headers, body = await town.ask(town.left, "/ws/v1/partitions")
    assert (status, headers[MISSING]) == (200, "lost")
    assert [row["name"] for row in json.loads(body)] == ["[left]default", "[right]default"]
    status, headers, body = await town.ask(town.left, "/ws/v1/partition/[far]default/queues")
    assert (status, headers[MISSING]) == (503, "lost")
    assert "member lost" in json.loads(body)["message"]
    assert (await town.ask(town.left, "/ws/v1/scheduler/healthcheck"))[1][MISSING] == "lost"


async def test_each_member_has_metrics_of_the_deployment(town: Town) -> None:
    """The metrics of a member have the members, its own RMs, and the counts of its lease."""
    seat = town.left.ownership
    assert isinstance(seat, Seat)
    seat.counted = Counts(renewals=5, failures=2, fenced=1, moved=3)
    _, _, body = await town.ask(town.left, "/metrics")
    samples = dict(line.rsplit(" ", 1) for line in body.decode().splitlines() if not line.startswith("#"))
    assert {name: float(samples[f"licorne_{name}"]) for name in FIGURES} == FIGURES


@pytest.mark.parametrize(
    ("head", "body"),
    [
        *((HEAD, body) for body in (b"", b"{}", b"[1", b"nonsense", b"[" * 20_000, b"x" * 70_000)),
        (b"", b"[]"),
        (b"nonsense", b"[]"),
        (pb.ReadHead(status=99_999).SerializeToString(), b"[]"),
    ],
)
async def test_an_unusable_part_counts_as_missing(
    town: Town, monkeypatch: pytest.MonkeyPatch, head: bytes, body: bytes
) -> None:
    """An invalid or too long answer of another member is left out, and named as missing."""
    monkeypatch.setattr(http_members, "MAX_WHOLE", 60_000)

    async def answer(*_: object) -> AsyncIterator[bytes]:
        for message in (head, body):
            yield message

    async with member(town.table, "odd", http=None) as odd:
        monkeypatch.setattr(odd._member_calls, "answer", answer)
        for path in ("/ws/v1/partitions", "/ws/v1/history/apps"):
            status, headers, _ = await town.ask(town.left, path)
            assert (status, headers[MISSING]) == (200, "odd")
        _, headers, found = await town.ask(town.left, "/ui/api/search?q=node-of")
        assert headers[MISSING] == "odd"
        assert not json.loads(found)["complete"]


async def test_an_interrupted_answer_is_cut_off(town: Town, monkeypatch: pytest.MonkeyPatch) -> None:
    """A reader cannot mistake the received part for the whole; an incomplete request is refused too."""

    async def answer(*_: object) -> AsyncIterator[bytes]:
        yield HEAD
        yield b"[" * 5_000
        raise unavailable("the answer was cut off")

    members = town.right.members
    assert members is not None
    [other] = members.others()
    for path in ("/ws/v1/clusters\r\nHost: x", "/ws/v1/clusters\u00e9"):
        with pytest.raises(http_members.Unreachable):
            await members.whole(other, path, members.own_right)
    monkeypatch.setattr(town.left._member_calls, "answer", answer)
    with pytest.raises(aiohttp.ClientPayloadError):
        await town.ask(town.right, "/ws/v1/partition/[left]default/queues")
