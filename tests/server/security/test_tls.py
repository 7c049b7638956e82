"""TLS: who gets in, what a certificate allows, and certificates that change while serving."""

import asyncio
import shutil
import ssl
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import grpc
import pytest
from structlog.testing import capture_logs

from licorne.si.v1 import si_pb2 as si
from licorne.v1 import admin_pb2 as ap
from licorne.v1 import state_pb2 as pb
from licorne.v1.admin_pb2_grpc import AdminStub
from licorne.v1.state_pb2_grpc import StateStub
from licorne_server.process.settings import SettingsError
from licorne_server.serving.app import Server
from support.peers.shim import RawSession, Shim, serving
from support.peers.tls import FILES, SPIFFE, connected_as, tls

DENIED = grpc.StatusCode.PERMISSION_DENIED


@pytest.fixture
async def server() -> AsyncIterator[Server]:
    """A server that takes `rm` for the RM `rm`, and `operator` for an operator."""
    identities = {"rm": frozenset({SPIFFE})}
    operators = frozenset({"operator"})
    async with serving(tls=tls(), rm_identities=identities, operators=operators) as server:
        yield server


async def test_certificate_allows_its_rm(server: Server) -> None:
    """The RM whose identity is in the certificate is served on all its streams."""
    async with connected_as("rm", server) as channel:
        await Shim(channel).set_up()
        call, _ = await RawSession(channel).begin()
        call.call.cancel()


async def test_certificate_allows_no_other_rm(server: Server) -> None:
    """Another rmID is denied: registering it, its streams, its session, its state."""
    async with connected_as("rm", server) as channel:
        other = Shim(channel, "other")
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await other.register()
        assert refused.value.code() is DENIED
        nodes = other.open("UpdateNode")
        await nodes.send(si.NodeRequest(rmID="other"))
        text = "this certificate may not act for RM other"
        assert await nodes.ending() == (DENIED, text)
        assert await (await RawSession(channel, "other").hello()).ending() == (DENIED, text)
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await StateStub(channel).ListPartitions(pb.ListPartitionsRequest(rm_id="other"))
        assert refused.value.code() is DENIED


async def test_events_are_the_rms_own_and_the_operators(server: Server) -> None:
    """Another RM's events are denied, listed or watched, whoever registered first."""
    async with connected_as("operator", server) as operator, connected_as("rm", server) as channel:
        await Shim(channel).register()
        for rm_id in ("rm", ""):
            request = pb.ListEventsRequest(rm_id=rm_id)
            assert (await StateStub(channel).ListEvents(request)).instance
            assert (await StateStub(operator).ListEvents(request)).instance
        for rm_id in ("other", "unknown"):
            with pytest.raises(grpc.aio.AioRpcError) as refused:
                await StateStub(channel).ListEvents(pb.ListEventsRequest(rm_id=rm_id))
            assert refused.value.code() is DENIED
            watch: Any = StateStub(channel).WatchEvents(pb.WatchEventsRequest(rm_id=rm_id))
            assert await watch.code() is DENIED


async def test_what_runs_where_is_the_rms_own_business(server: Server) -> None:
    """Every read of a partition is denied to another RM."""
    async with connected_as("rm", server) as channel, connected_as("operator", server) as other:
        await Shim(channel).register()
        await Shim(other, "operator").register()
        theirs: dict[str, Any] = {"partition": "[operator]default"}
        stub: Any = StateStub(channel)
        for read, request in (
            (stub.ListQueues, pb.ListQueuesRequest(**theirs)),
            (stub.ListApplications, pb.ListApplicationsRequest(**theirs)),
            (stub.GetApplication, pb.GetApplicationRequest(application_id="app", **theirs)),
            (stub.ListNodes, pb.ListNodesRequest(**theirs)),
            (stub.Explain, pb.ExplainRequest(application_id="app", **theirs)),
            (stub.ListUsage, pb.ListUsageRequest(**theirs)),
            (stub.ListReservations, pb.ListReservationsRequest(**theirs)),
            (stub.ListOutstanding, pb.ListOutstandingRequest(**theirs)),
        ):
            with pytest.raises(grpc.aio.AioRpcError) as refused:
                await read(request)
            assert refused.value.code() is DENIED


async def test_rms_do_not_see_each_other_and_operators_see_all(server: Server) -> None:
    """An RM lists its own partitions and configures itself; an operator does so for every RM."""
    async with connected_as("rm", server) as channel, connected_as("operator", server) as other:
        await Shim(channel).register()
        await Shim(other, "operator").register()
        everything = pb.ListPartitionsRequest()
        mine = await StateStub(channel).ListPartitions(everything)
        assert [item.rm_id for item in mine.partitions] == ["rm"]
        all_of_them = await StateStub(other).ListPartitions(everything)
        assert [item.rm_id for item in all_of_them.partitions] == ["rm", "operator"]
        await AdminStub(other).GetConfiguration(ap.GetConfigurationRequest(rm_id="rm"))
        request = ap.GetConfigurationRequest(rm_id="operator")
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await AdminStub(channel).GetConfiguration(request)
        assert refused.value.code() is DENIED


async def test_peer_without_a_certificate_gets_nowhere(server: Server) -> None:
    """With a CA for clients, a client without a certificate cannot even connect."""
    async with connected_as("", server) as channel:
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await Shim(channel).register()
        assert refused.value.code() is grpc.StatusCode.UNAVAILABLE


async def test_server_certificate_alone_asks_nobody_who_he_is() -> None:
    """Without a CA for clients TLS encrypts, and everybody may act for every RM."""
    async with serving(tls=tls(mutual=False)) as server, connected_as("", server) as channel:
        await Shim(channel, "anybody").register()


async def test_changed_certificate_is_used_by_the_next_connection(tmp_path: Path) -> None:
    """A certificate that is replaced on disk needs no restart; a broken file changes nothing."""
    for file in FILES.glob("*.*"):
        shutil.copy(file, tmp_path)
    async with serving(tls=tls(tmp_path, mutual=False)) as server:
        before = (FILES / "server.pem").read_text()
        assert await shown_by(server) == before
        (tmp_path / "server.pem").unlink()
        assert await shown_by(server) == before
        for kind in ("key", "pem"):
            shutil.copy(FILES / f"operator.{kind}", tmp_path / f"server.{kind}")
        assert await shown_by(server) == (FILES / "operator.pem").read_text()


async def shown_by(server: Server) -> str:
    """The certificate that a server shows, in PEM; asked for beside the loop that serves it."""
    host, _, port = server.grpc_address.rpartition(":")
    return await asyncio.to_thread(ssl.get_server_certificate, (host, int(port)))


async def test_missing_certificate_is_named(tmp_path: Path) -> None:
    """A server does not start without its files, and says which one is missing."""
    with pytest.raises(SettingsError, match=r"cannot read .*server\.pem: No such file"):
        async with serving(tls=tls(tmp_path)):
            pass


@pytest.mark.parametrize(
    ("file", "content", "named"),
    [
        ("server.pem", "no certificate", "--tls-cert"),
        ("server.key", "no key", "--tls-key"),
        ("server.key", (FILES / "operator.key").read_text(), "--tls-key"),
        ("ca.pem", "no authority", "--tls-client-ca"),
    ],
    ids=["certificate", "key", "another's key", "authority"],
)
async def test_files_that_are_no_good_are_named(tmp_path: Path, file: str, content: str, named: str) -> None:
    """A server does not start with them, and says which of its options is to blame."""
    for known in FILES.glob("*.*"):
        shutil.copy(known, tmp_path)
    (tmp_path / file).write_text(content)
    with pytest.raises(SettingsError, match=rf"{named} .*{file}.*: not usable as PEM: "):
        async with serving(tls=tls(tmp_path)):
            pass


async def test_garbage_in_a_changed_file_is_said_and_not_used(tmp_path: Path) -> None:
    """What was good stays in use, and the log does not call the garbage a new certificate."""
    for file in FILES.glob("*.*"):
        shutil.copy(file, tmp_path)
    async with serving(tls=tls(tmp_path, mutual=False)) as server:
        before = await shown_by(server)
        (tmp_path / "server.pem").write_text("half a certif")
        with capture_logs() as logs:
            assert await shown_by(server) == before
            assert await shown_by(server) == before
        assert [entry["event"] for entry in logs] == ["certificate not usable"]
