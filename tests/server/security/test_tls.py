"""TLS: access, rights of certificates, and certificates replaced while serving."""

import asyncio
import os
import shutil
import ssl
from collections.abc import AsyncIterator
from pathlib import Path

import aiohttp
import grpc
import pytest
from structlog.testing import capture_logs

from licorne.v1 import admin_pb2 as ap
from licorne.v1 import state_pb2 as pb
from licorne.v1.admin_pb2_grpc import AdminStub
from licorne.v1.state_pb2_grpc import StateStub
from licorne_server.assembly.server import Server
from licorne_server.process.settings import SettingsError
from licorne_server.security.tls import CertificateEnd
from support.peers.shim import LOOPBACK, RawSession, Shim, serving
from support.peers.tls import FILES, SPIFFE, connected_as, tls
from support.server.reports import warned


@pytest.fixture
async def server() -> AsyncIterator[Server]:
    """A server that accepts certificate `rm` for RM `rm`, and `operator` as an operator."""
    identities = {"rm": frozenset({SPIFFE})}
    operators = frozenset({"operator"})
    async with serving(tls=tls(), rm_identities=identities, operators=operators) as server:
        yield server


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Copies of the files, to be changed."""
    for file in FILES.glob("*.*"):
        shutil.copy(file, tmp_path)
    return tmp_path


async def test_certificate_allows_its_rm(server: Server) -> None:
    """The RM of a certificate is served on all its streams."""
    async with connected_as("rm", server) as channel:
        await Shim(channel).set_up()
        call, _ = await RawSession(channel).begin()
        call.call.cancel()


async def test_rms_do_not_see_each_other_and_operators_see_all(server: Server) -> None:
    """An RM reads and configures itself only; an operator every RM."""
    async with connected_as("rm", server) as channel, connected_as("operator", server) as other:
        await Shim(channel).register()
        await Shim(other, "operator").register()
        everything = pb.ListPartitionsRequest()
        mine = await StateStub(channel).ListPartitions(everything)
        assert [item.rm_id for item in mine.partitions] == ["rm"]
        all_of_them = await StateStub(other).ListPartitions(everything)
        assert [item.rm_id for item in all_of_them.partitions] == ["rm", "operator"]
        await AdminStub(other).GetConfiguration(ap.GetConfigurationRequest(rm_id="rm"))
        for rm_id in ("rm", ""):
            assert (await StateStub(other).ListEvents(pb.ListEventsRequest(rm_id=rm_id))).instance


async def test_a_peer_without_a_certificate_is_refused(server: Server) -> None:
    """With a CA for clients, a client without a certificate cannot connect."""
    async with connected_as("", server) as channel:
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await Shim(channel).register()
        assert refused.value.code() is grpc.StatusCode.UNAVAILABLE


async def test_without_a_client_authority_all_callers_have_all_rights() -> None:
    """Without a CA for clients TLS encrypts, and all callers have all rights."""
    async with serving(tls=tls(mutual=False)) as server, connected_as("", server) as channel:
        await Shim(channel, "anybody").register()


async def test_changed_certificate_is_used_by_the_next_connection(folder: Path) -> None:
    """A replaced certificate needs no restart; an unusable file changes nothing."""
    async with serving(tls=tls(folder, mutual=False)) as server:
        before = (FILES / "server.pem").read_text()
        assert await shown_by(server) == before
        (folder / "server.pem").unlink()
        assert await shown_by(server) == before
        for kind in ("key", "pem"):
            shutil.copy(FILES / f"operator.{kind}", folder / f"server.{kind}")
        assert await shown_by(server) == (FILES / "operator.pem").read_text()


async def shown_by(server: Server) -> str:
    """The certificate of a server in PEM, read outside the loop that serves it."""
    host, _, port = server.grpc_address.rpartition(":")
    return await asyncio.to_thread(ssl.get_server_certificate, (host, int(port)))


@pytest.mark.parametrize(
    ("file", "content", "problem"),
    [
        ("server.pem", None, "cannot read .*server.pem: No such file"),
        ("server.pem", "no certificate", "server.tls_cert .*server.pem.*: not usable as PEM: "),
        ("server.key", "no key", "server.tls_key .*server.key: not usable as PEM: "),
        (
            "server.key",
            (FILES / "operator.key").read_text(),
            "server.tls_key .*server.key: not usable as PEM: ",
        ),
        ("ca.pem", "no authority", "server.tls_client_ca .*ca.pem: not usable as PEM: "),
    ],
    ids=["missing", "certificate", "key", "another's key", "authority"],
)
async def test_unusable_files_are_named(folder: Path, file: str, content: str | None, problem: str) -> None:
    """Unusable files stop the start, with the option."""
    if content is None:
        (folder / file).unlink()
    else:
        (folder / file).write_text(content)
    with pytest.raises(SettingsError, match=problem):
        async with serving(tls=tls(folder)):
            pass


async def test_an_unusable_changed_file_is_logged(folder: Path) -> None:
    """An unusable changed file is logged, and the old files remain in use."""
    async with serving(tls=tls(folder, mutual=False)) as server:
        before = await shown_by(server)
        (folder / "server.pem").write_text("half a certif")
        with capture_logs() as logs:
            assert await shown_by(server) == before
            assert await shown_by(server) == before
        assert [entry["event"] for entry in warned(logs)] == ["certificate not usable"]


IN_2126 = 4_948_830_377
ENDED = 1_795_318_842
"""The end of the certificate `over`, which had expired before it was created."""


def replace(file: Path, content: bytes, time: int) -> None:
    """Replace the content of a file, with another time of modification."""
    file.write_bytes(content)
    os.utime(file, ns=(time, time))


def test_the_end_of_a_changed_certificate_is_read(folder: Path) -> None:
    """A replaced certificate, even an expired one, has its own end; without TLS there is no end."""
    end = CertificateEnd(tls(folder))
    assert end.time() == IN_2126
    assert CertificateEnd(None).time() == 0
    shutil.copy(FILES / "over.key", folder / "server.key")
    replace(folder / "server.pem", (FILES / "over.pem").read_bytes(), 1)
    assert end.time() == ENDED


def test_an_unusable_file_has_no_end(folder: Path) -> None:
    """An unusable file is logged and has no end, until it is replaced."""
    end, cert = CertificateEnd(tls(folder)), folder / "server.pem"
    good = cert.read_bytes()
    for number, bad in enumerate((b"", b"nothing", good[:300]), 1):
        replace(cert, bad, number)
        with capture_logs() as lines:
            assert end.time() == 0
        assert [line["event"] for line in lines] == ["end of certificate not read"]
    cert.unlink()
    assert end.time() == 0
    replace(cert, good, 9)
    assert end.time() == IN_2126


async def test_a_scrape_has_the_end_of_the_certificate() -> None:
    """The metric exists only with TLS."""
    for given, shown in ((tls(mutual=False), True), (None, False)):
        async with serving(http=LOOPBACK, tls=given, http_insecure=True) as server:
            url = f"http://{server.http_address}/metrics"
            async with aiohttp.ClientSession() as client, client.get(url) as answer:
                text = await answer.text()
        line = f"\nlicorne_tls_certificate_end_timestamp_seconds {float(IN_2126)}\n"
        assert (line in text) is shown
