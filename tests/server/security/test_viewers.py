"""Viewers read everything, by token or certificate, and change nothing."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import grpc
import pytest

from licorne.v1 import admin_pb2 as ap
from licorne.v1 import state_pb2 as pb
from licorne.v1.admin_pb2_grpc import AdminStub
from licorne.v1.state_pb2_grpc import StateStub
from licorne_server.assembly.server import Server
from licorne_server.http.identity import NO_IDENTITY
from licorne_server.process.settings import Settings, SettingsError
from support.peers.shim import LOOPBACK, RawSession, Shim, connected, refusal, serving
from support.peers.tls import Bearing, connected_as, https, tls
from support.server.http_site import API, Viewer

MINE, VIEWER, OPERATOR, BOTH, NEWER = ("token-of-" + who * 8 for who in "abcde")
READS = {
    "GetConfiguration",
    "ValidateConfiguration",
    "ListConfigurations",
    "GetBudgets",
    "ListMembers",
    "PlanConfiguration",
    "PlanSubmission",
    "PlanStart",
    "GetLogLevels",
    "DumpState",
}
"""The calls of `Admin` that change nothing. All others are refused to a viewer."""

CHANGES = sorted(set(ap.DESCRIPTOR.services_by_name["Admin"].methods_by_name) - READS)
DENIED = (grpc.StatusCode.PERMISSION_DENIED, "this token of a viewer may see everything and change nothing")


class Town:
    """A server with the tokens of an RM, an operator, a viewer, and a viewer that is an RM too."""

    def __init__(self, server: Server, channel: grpc.aio.Channel, folder: Path) -> None:
        """Use a channel without a token."""
        self.server = server
        self.folder = folder
        self._channel = channel

    def bearing(self, token: str) -> Any:
        """The channel with a token."""
        return Bearing(self._channel, f"Bearer {token}")


@pytest.fixture
async def town(tmp_path: Path) -> AsyncIterator[Town]:
    """RM `mine` is registered."""
    for name, token in (("mine", MINE), ("viewer", VIEWER), ("operator", OPERATOR), ("both", BOTH)):
        (tmp_path / name).write_text(token)
    async with (
        serving(
            http=LOOPBACK,
            rm_tokens={"mine": (tmp_path / "mine",), "own": (tmp_path / "both",)},
            operator_tokens=(tmp_path / "operator",),
            viewer_tokens=(tmp_path / "viewer", tmp_path / "both"),
        ) as server,
        connected(server) as channel,
    ):
        town = Town(server, channel, tmp_path)
        await Shim(town.bearing(MINE), "mine").register()
        yield town


async def test_a_viewer_reads_all_rms(town: Town) -> None:
    """Reports, events, configurations, budgets, levels and dumps are the same as for an operator."""
    viewer = town.bearing(VIEWER)
    state, admin = StateStub(viewer), AdminStub(viewer)
    [partition] = (await state.ListPartitions(pb.ListPartitionsRequest())).partitions
    assert partition.rm_id == "mine"
    assert await state.ListNodes(pb.ListNodesRequest(partition="default"))
    watch = state.WatchEvents(pb.WatchEventsRequest(rm_id="mine"))
    assert await watch.read() is not grpc.aio.EOF
    watch.cancel()
    assert (await admin.GetConfiguration(ap.GetConfigurationRequest(rm_id="mine"))).registered
    assert (await admin.ListConfigurations(ap.ListConfigurationsRequest(rm_id="mine"))).revisions
    await admin.GetBudgets(ap.GetBudgetsRequest())
    await admin.GetLogLevels(ap.GetLogLevelsRequest())
    dump = b"".join([part.json async for part in admin.DumpState(ap.DumpStateRequest())])
    assert b'"rmId":"mine"' in dump
    code, _ = await refusal(admin.ListMembers(ap.ListMembersRequest()))
    assert code is grpc.StatusCode.FAILED_PRECONDITION  # as for an operator, because there is no store


async def test_a_viewer_changes_nothing(town: Town) -> None:
    """Every call of `Admin` that changes something is refused, with the role, also without an RM."""
    for method in CHANGES:
        call = getattr(AdminStub(town.bearing(VIEWER)), method)
        request = getattr(ap, f"{method}Request")
        requests = [request()]
        if "rm_id" in request.DESCRIPTOR.fields_by_name:
            requests.append(request(rm_id="mine"))
        refused = [await refusal(call(one)) for one in requests]
        # A call that the server does not serve changes nothing either.
        served = [one for one in refused if one[0] is not grpc.StatusCode.UNIMPLEMENTED]
        assert served in ([], [DENIED] * len(requests)), method


async def test_a_viewer_cannot_act_as_an_rm(town: Town) -> None:
    """Registrations, streams and sessions of a viewer are refused, with the role."""
    viewer = town.bearing(VIEWER)
    denied = (grpc.StatusCode.PERMISSION_DENIED, "this token of a viewer may not act for RM mine")
    assert await refusal(Shim(viewer, "mine").register()) == denied
    assert await (await RawSession(viewer, "mine").hello()).ending() == denied


async def test_a_viewer_that_is_an_rm_changes_its_own_data(town: Town) -> None:
    """A token may belong to a viewer and to an RM, and has the rights of both."""
    both = town.bearing(BOTH)
    await Shim(both, "own").register()
    update = ap.UpdateConfigurationRequest
    config = "partitions: [{name: default, queues: [{name: root, queues: [{name: new}]}]}]"
    assert (await AdminStub(both).UpdateConfiguration(update(rm_id="own", config=config))).changed
    assert await refusal(AdminStub(both).UpdateConfiguration(update(rm_id="mine", config=config))) == DENIED


async def test_watches_end_with_the_role(town: Town) -> None:
    """A token that loses the role loses its watches."""
    watch = StateStub(town.bearing(BOTH)).WatchEvents(pb.WatchEventsRequest(rm_id="mine"))
    assert await watch.read() is not grpc.aio.EOF
    (town.folder / "viewer").write_text(NEWER)
    (town.folder / "both").write_text(NEWER)
    town.server.reload()
    text = "the token that opened this does not count any more: the tokens were read again"
    assert (await watch.code(), await watch.details()) == (grpc.StatusCode.UNAUTHENTICATED, text)


async def read(server: Server, path: str, token: str = "", ssl: Any = False) -> tuple[int, str]:
    """Status and text of an answer; `ssl` has the settings of HTTPS."""
    scheme = "https" if ssl else "http"
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    async with (
        aiohttp.ClientSession() as client,
        client.get(f"{scheme}://{server.http_address}{path}", headers=headers, ssl=ssl or True) as answer,
    ):
        return answer.status, await answer.text()


async def role(server: Server, token: str, ssl: Any = False) -> str:
    """The role in the feed."""
    scheme = "https" if ssl else "http"
    async with (
        aiohttp.ClientSession() as client,
        client.get(
            f"{scheme}://{server.http_address}{API}/feed",
            headers={"Authorization": f"Bearer {token}"},
            ssl=ssl or True,
        ) as answer,
    ):
        _, hello = await Viewer(answer.content).next()
        return str(hello["role"])


async def test_a_viewer_sees_everything_over_http(town: Town) -> None:
    """A viewer reads all paths except those about the process; the page has the role."""
    for path in ("/metrics", "/ws/v1/partitions", "/ws/v1/config?rm=mine", "/ws/v1/fullstatedump",
                 "/ws/v1/partition/[mine]default/queues", f"{API}/config?rm=mine"):  # fmt: skip
        assert (await read(town.server, path, VIEWER))[0] == 200, path
    for path in ("/debug/stack", "/debug/pprof/"):
        status, text = await read(town.server, path, VIEWER)
        assert (status, "the role of a viewer does not allow it" in text) == (403, True), path
    async with aiohttp.ClientSession(headers={"Authorization": f"Bearer {VIEWER}"}) as client:
        for path, wanted in (("/ws/v1/config", 403), ("/ws/v1/validate-conf", 200)):
            async with client.post(f"http://{town.server.http_address}{path}", data="{}") as answer:
                assert answer.status == wanted, path
        cordon = {"act": "cordon", "rm": "mine", "partition": "", "name": "n1", "message": "disk"}
        async with client.post(f"http://{town.server.http_address}{API}/act", json=cordon) as answer:
            assert (answer.status, DENIED[1] in await answer.text()) == (403, True)
    assert await role(town.server, VIEWER) == "viewer"
    assert await role(town.server, OPERATOR) == "operator"


async def test_a_viewer_needs_no_certificate_over_https(tmp_path: Path) -> None:
    """A viewer's token is accepted over HTTPS beside certificates, but does not replace one over gRPC."""
    (tmp_path / "viewer").write_text(VIEWER)
    rights: dict[str, Any] = {"operators": frozenset({"operator"}), "viewer_tokens": (tmp_path / "viewer",)}
    async with serving(http=LOOPBACK, tls=tls(), **rights) as server:
        assert (await read(server, "/ui", ssl=https()))[0] == 200
        for token in ("", MINE):
            status, text = await read(server, "/ws/v1/partitions", token, https())
            assert (status, NO_IDENTITY in text) == (401, True)
        assert (await read(server, "/ws/v1/partitions", VIEWER, https()))[0] == 200
        assert await role(server, VIEWER, https()) == "viewer"
        assert await role(server, VIEWER, https("operator")) == "operator"
        assert (await read(server, "/ws/v1/partitions", VIEWER, https("rm")))[0] == 403
        async with connected_as("rm", server) as channel:
            rm: Any = Bearing(channel, f"Bearer {VIEWER}")
            code, text = await refusal(AdminStub(rm).GetBudgets(ap.GetBudgetsRequest()))
            assert (code, text.split(" is ")[0]) == (grpc.StatusCode.PERMISSION_DENIED, "this certificate")


async def test_a_certificate_may_be_that_of_a_viewer(tmp_path: Path) -> None:
    """A certificate with a name of `access.viewers` sees every RM over both ports, and changes nothing."""
    rights: dict[str, Any] = {"viewers": frozenset({"operator"})}
    async with (
        serving(http=LOOPBACK, tls=tls(), **rights) as server,
        connected_as("operator", server) as channel,
    ):
        await AdminStub(channel).GetBudgets(ap.GetBudgetsRequest())
        code, text = await refusal(AdminStub(channel).ForgetRm(ap.ForgetRmRequest(rm_id="mine")))
        assert code is grpc.StatusCode.PERMISSION_DENIED
        assert text == "this certificate of a viewer may see everything and change nothing"
        assert (await read(server, "/ws/v1/partitions", ssl=https("operator")))[0] == 200


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        (
            {"viewer_tokens": (Path("x"),)},
            "access.viewer_token_files needs access.operator_token_files, access.rm_token_files or server",
        ),
        (
            {"viewers": frozenset({"ann"})},
            "access.viewers needs server.tls_client_ca",
        ),
    ],
)
def test_viewers_without_other_identities_are_refused(changes: dict[str, Any], text: str) -> None:
    """Viewers are refused at the start if all callers have all rights."""
    with pytest.raises(SettingsError, match=text):
        Settings(**changes).check()
