"""The log of refused items: the RM, the item, and the reason."""

from collections.abc import Iterator
from typing import Any

import grpc
import pytest
from structlog.testing import capture_logs

from licorne.si.v1 import si_pb2 as si
from licorne.v1 import session_pb2 as sp
from licorne_core.messages.effects import (
    AllocationRejection,
    AllocationsRejected,
    ApplicationRejection,
    ApplicationsAnswered,
    NodesAnswered,
)
from licorne_core.values.errors import Refusal
from licorne_core.values.ids import AllocationKey, AppId, NodeId, RmId
from licorne_server.rms.rm_log import MOST_LOGGED, log_rejections
from licorne_server.telemetry.logs import levels
from licorne_server.wire.caps import MAX_ITEM_BYTES
from support.peers.shim import Call, RawSession, Shim, application, ask, eventually, node, releases

RM = RmId("rm")


@pytest.fixture
def logs() -> Iterator[list[Any]]:
    """All lines from now on."""
    levels().begin("info")
    with capture_logs() as lines:
        yield lines
    levels().begin("info")


def told(logs: list[Any], event: str) -> list[dict[str, Any]]:
    """The lines of that event, without the common fields; each is a warning."""
    found = [dict(line) for line in logs if line["event"] == event]
    assert all(line.pop("log_level") == "warning" for line in found)
    return [{key: line[key] for key in line if key != "event"} for line in found]


@pytest.mark.parametrize("texts", [{"bad\nkey": ""}, {"note": "x" * MAX_ITEM_BYTES}])
async def test_dropped_parts_of_accepted_items_are_logged(
    logs: list[Any], shim: Shim, streams: tuple[Call, Call, Call], texts: dict[str, str]
) -> None:
    """The line has the RM, the item and the dropped part, whether the item was read in parts or at once."""
    allocations, _, nodes = streams
    described = node("n1", vcore=1)
    described.attributes.update(texts)
    await shim.nodes(nodes, described)
    await shim.ask(allocations, ask("k", nodeID="n0", allocationTags=texts))
    await allocations.next()
    (taken,) = told(logs, "node taken without its attributes")
    assert (taken["rm_id"], taken["node"]) == ("rm", "n1")
    (taken,) = told(logs, "allocation taken without its tags")
    assert (taken["rm_id"], taken["key"], taken["application"]) == ("rm", "k", "app")


async def test_each_rejected_item_is_logged(
    logs: list[Any], shim: Shim, streams: tuple[Call, Call, Call]
) -> None:
    """Nodes, applications, asks, allocations and releases that are rejected have a line each."""
    allocations, applications, nodes = streams
    await shim.nodes(nodes, node("n0", vcore=1))
    await applications.send(si.ApplicationRequest(rmID="rm", new=[application("new", "root.a.b.none")]))
    bad = ask("k3", "")
    bad.nodeID = "n0"
    gone = si.AllocationRelease(allocationKey="k4", applicationID="app", terminationType=9)  # type: ignore[arg-type]
    await allocations.send(
        si.AllocationRequest(
            rmID="rm",
            allocations=[ask("k1", "nobody"), ask("k2", "nobody", nodeID="n0"), bad],
            releases=releases(gone),
        )
    )
    await eventually(lambda: told(logs, "release rejected") and told(logs, "application rejected"))
    assert told(logs, "node rejected") == [
        {
            "rm_id": "rm",
            "key": "n0",
            "code": "ALREADY_THERE",
            "reason": told(logs, "node rejected")[0]["reason"],
        }
    ]
    assert "n0" in told(logs, "node rejected")[0]["reason"]
    (refused,) = told(logs, "application rejected")
    assert (refused["rm_id"], refused["key"]) == ("rm", "new")
    unknown = {"code": "UNKNOWN_APPLICATION", "reason": "failed to find application nobody"}
    about = {"rm_id": "rm", "application": "nobody", **unknown}
    assert told(logs, "ask rejected") == [{"key": "k1", **about}]
    invalid = {"key": "k3", "rm_id": "rm", "application": "", "code": "INVALID"}
    assert {"key": "k2", **about} in told(logs, "allocation rejected")
    assert {**invalid, "reason": "applicationID is empty"} in told(logs, "allocation rejected")
    (release,) = told(logs, "release rejected")
    assert (release["key"], release["application"]) == ("k4", "app")
    assert release["reason"] == "release: unknown termination type 9"


def test_a_completely_rejected_request_has_a_few_lines(logs: list[Any]) -> None:
    """The first items have a line each, and one line counts the others by kind and code."""
    count = 1000
    effect = AllocationsRejected(
        rm_id=RM,
        rejections=[
            AllocationRejection(
                key=AllocationKey(f"k{number}"),
                app_id=AppId("a"),
                reason="r",
                code=Refusal.TOO_MANY if number % 2 else Refusal.INVALID,
            )
            for number in range(count)
        ],
    )
    log_rejections(effect)
    assert [line["key"] for line in told(logs, "ask rejected")] == [
        f"k{number}" for number in range(MOST_LOGGED)
    ]
    half = (count - MOST_LOGGED) // 2
    assert told(logs, "more rejected") == [
        {
            "rm_id": "rm",
            "items": {"ask": count - MOST_LOGGED},
            "codes": {"INVALID": half, "TOO_MANY": half},
        }
    ]


def test_nothing_is_computed_for_a_disabled_level(logs: list[Any]) -> None:
    """If the level is off, effects are not even examined."""
    rejection = ApplicationRejection(app_id=AppId("a"), reason="r")
    effect = ApplicationsAnswered(rm_id=RM, rejected=[rejection])
    levels().set("core.rejections", "error")
    log_rejections(effect)
    assert not logs
    levels().set("core.rejections", "")
    log_rejections(NodesAnswered(rm_id=RM, accepted=[NodeId("n")]))
    assert not logs
    log_rejections(effect)
    assert [line["event"] for line in logs] == ["application rejected"]


async def test_refused_registrations_are_logged(logs: list[Any], shim: Shim, session: RawSession) -> None:
    """A refused registration is logged for any reason, over `si.v1` and over a session."""
    for config, rm_id in (("partitions: 1", "rm"), ("", "no[good]")):
        with pytest.raises(grpc.aio.AioRpcError):
            await Shim(shim.channel, rm_id).register(config)
    call = session.open()
    await call.send(sp.UpdateRequest(hello=sp.Hello(rm_id="rm", protocol=99, instance=1)))
    await call.ending()
    call = session.open()
    request = sp.UpdateRequest(hello=sp.Hello(rm_id="rm", protocol=1, instance=1))
    request.hello.registration.config = "partitions: 1"
    await call.send(request)
    await call.ending()
    lines = told(logs, "registration refused")
    assert [(line["rm_id"], line["code"], line["by"]) for line in lines] == [
        ("rm", "CONFIG_INVALID", "127.0.0.1"),
        ("no[good]", "INVALID_ARGUMENT", "127.0.0.1"),
        ("rm", "CONFIG_INVALID", "127.0.0.1"),
    ]
    assert "partitions" in lines[0]["reason"]
    assert all(line["peer"].startswith("ipv4:127.0.0.1:") for line in lines)
    (refused,) = told(logs, "session refused")
    assert refused["code"] == "PROTOCOL_UNKNOWN"


async def test_a_stream_of_an_unknown_rm_is_logged(logs: list[Any], shim: Shim) -> None:
    """A stream of an RM that has not registered is logged."""
    call = shim.open("UpdateNode")
    await call.send(si.NodeRequest(rmID="nobody"))
    await call.ending()
    (line,) = told(logs, "stream refused")
    assert (line["rm_id"], line["code"]) == ("nobody", "RM_NOT_REGISTERED")
