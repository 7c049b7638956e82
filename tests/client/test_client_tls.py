"""The client over TLS: its identity, and certificates that change."""

import asyncio
import shutil
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from licorne import Client, ConnectionLost, RetryConfig, TlsConfig
from licorne_server.assembly.server import Server
from licorne_server.process.settings import Tls
from support.patience import PATIENCE
from support.peers.shim import eventually, serving

FILES = Path(__file__).resolve().parents[1] / "data" / "tls"
QUICK = RetryConfig(initial=0.01, maximum=0.05)
MUTUAL = TlsConfig(ca=FILES / "ca.pem", certificate=FILES / "rm.pem", key=FILES / "rm.key")


@pytest.fixture
async def server() -> AsyncIterator[Server]:
    """A server that identifies the RM `rm` by its certificate."""
    tls = Tls(cert=FILES / "server.pem", key=FILES / "server.key", client_ca=FILES / "ca.pem")
    async with serving(tls=tls, rm_identities={"rm": frozenset({"spiffe://test/rm"})}) as server:
        yield server


async def test_without_a_certificate_no_server_answers(server: Server) -> None:
    """A client without a certificate cannot connect, and reports that when its patience ends."""
    tls = TlsConfig(ca=FILES / "ca.pem")
    retry = RetryConfig(initial=0.01, maximum=0.05, give_up_after=0.1)
    async with Client(server.grpc_address, rm_id="rm", tls=tls, retry=retry) as rm:
        with pytest.raises(ConnectionLost):
            await asyncio.wait_for(rm.ready(), PATIENCE)


async def test_renewed_certificates_are_used(server: Server, tmp_path: Path) -> None:
    """Files that are missing at first are read for the next try."""
    tls = TlsConfig(ca=FILES / "ca.pem", certificate=tmp_path / "rm.pem", key=tmp_path / "rm.key")
    async with Client(server.grpc_address, rm_id="rm", tls=tls, retry=QUICK) as rm:
        await eventually(lambda: rm.stats.streams > 1)
        for name in ("rm.pem", "rm.key"):
            shutil.copy(FILES / name, tmp_path / name)
        await asyncio.wait_for(rm.ready(), PATIENCE)


async def test_the_name_in_the_certificate_can_be_given(server: Server) -> None:
    """If a certificate does not have the address of its server, another name can be verified."""
    wrong = TlsConfig(ca=MUTUAL.ca, certificate=MUTUAL.certificate, key=MUTUAL.key, server_name="elsewhere")
    retry = RetryConfig(initial=0.01, maximum=0.05, give_up_after=0.1)
    async with Client(server.grpc_address, rm_id="rm", tls=wrong, retry=retry) as rm:
        with pytest.raises(ConnectionLost):
            await asyncio.wait_for(rm.ready(), PATIENCE)
    right = TlsConfig(ca=MUTUAL.ca, certificate=MUTUAL.certificate, key=MUTUAL.key, server_name="localhost")
    async with Client(server.grpc_address, rm_id="rm", tls=right, retry=QUICK) as rm:
        await asyncio.wait_for(rm.ready(), PATIENCE)
