"""The standard services: health, and reflection where it reveals nothing."""

from pathlib import Path

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc  # type: ignore[import-untyped]
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc  # type: ignore[import-untyped]

from licorne.v1.state_pb2 import ListPartitionsRequest
from licorne.v1.state_pb2_grpc import StateStub
from licorne_server.assembly.server import Server
from licorne_server.process.settings import Address, Settings, SettingsError, Tls
from support.peers.shim import RawSession, connected, serving

SERVICES = ("si.v1.Scheduler", "licorne.v1.Session", "licorne.v1.Admin", "licorne.v1.State")
SERVING = health_pb2.HealthCheckResponse.SERVING
NOT_SERVING = health_pb2.HealthCheckResponse.NOT_SERVING


@pytest.mark.parametrize("service", ["", *SERVICES])
async def test_every_service_is_healthy_while_it_serves(channel: grpc.aio.Channel, service: str) -> None:
    """The server as a whole and each service have an entry of their own."""
    stub = health_pb2_grpc.HealthStub(channel)
    answer = await stub.Check(health_pb2.HealthCheckRequest(service=service))
    assert answer.status == SERVING


async def test_a_drain_is_reported_before_the_stop() -> None:
    """Watchers of the health get NOT_SERVING when the drain begins."""
    async with serving() as server, connected(server) as channel:
        watch = health_pb2_grpc.HealthStub(channel).Watch(health_pb2.HealthCheckRequest())
        assert (await watch.read()).status == SERVING
        await server.stop()
        assert (await watch.read()).status == NOT_SERVING


async def test_a_draining_server_refuses_new_sessions(server: Server) -> None:
    """A late hello is refused with a time to reconnect."""
    server.rms.drain(1.0)
    async with connected(server) as channel:
        code, text = await (await RawSession(channel).hello()).ending()
        assert code is grpc.StatusCode.UNAVAILABLE
        assert text == "the server is about to stop"


async def test_a_defect_is_not_revealed(
    server: Server, channel: grpc.aio.Channel, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A defect is INTERNAL with an id that is also in the log, and nothing else."""

    def fail(*_: object) -> None:
        raise RuntimeError("a secret of the house")

    monkeypatch.setattr(server.scheduler.views, "partition_names", fail)
    with pytest.raises(grpc.aio.AioRpcError) as masked:
        await StateStub(channel).ListPartitions(ListPartitionsRequest())
    assert masked.value.code() is grpc.StatusCode.INTERNAL
    text = masked.value.details() or ""
    assert text.startswith("internal error, correlation id ")
    assert "secret" not in text


async def reflected(channel: grpc.aio.Channel) -> set[str]:
    """The services that reflection lists."""
    stub = reflection_pb2_grpc.ServerReflectionStub(channel)
    call = stub.ServerReflectionInfo()
    await call.write(reflection_pb2.ServerReflectionRequest(list_services=""))
    answer = await call.read()
    call.cancel()
    return {service.name for service in answer.list_services_response.service}


async def test_reflection_lists_all_services(channel: grpc.aio.Channel) -> None:
    """On loopback without TLS, tools can list the callable methods."""
    assert set(SERVICES) <= await reflected(channel)


async def test_reflection_can_be_disabled() -> None:
    """Without reflection its service does not exist."""
    async with serving(reflection=False) as server, connected(server) as channel:
        with pytest.raises(grpc.aio.AioRpcError) as missing:
            await reflected(channel)
        assert missing.value.code() is grpc.StatusCode.UNIMPLEMENTED


def test_reflection_is_off_with_tls_off_loopback() -> None:
    """Off loopback with TLS reflection is off by default."""
    tls = Tls(cert=Path("cert.pem"), key=Path("key.pem"))
    everywhere = Address(host="0.0.0.0", port=1)
    assert not Settings(listen=everywhere, tls=tls).reflects
    assert Settings(listen=everywhere, tls=tls, reflection=True).reflects
    assert Settings(listen=everywhere, insecure=True).reflects


@pytest.mark.parametrize(
    ("text", "host", "port"),
    [
        ("127.0.0.1:80", "127.0.0.1", 80),
        ("[::1]:7070", "::1", 7070),
        ("localhost:0", "localhost", 0),
    ],
)
def test_addresses_of_loopback_are_recognized(text: str, host: str, port: int) -> None:
    """Loopback is recognized in every spelling, and prints unchanged."""
    address = Address.parse(text)
    assert (address.host, address.port) == (host, port)
    assert address.is_loopback
    assert str(address) == text


@pytest.mark.parametrize("text", ["0.0.0.0:1", "[::]:1", "10.0.0.1:1", "example.test:1"])
def test_other_addresses_are_not_loopback(text: str) -> None:
    """Any address that other hosts may reach is not loopback, names included."""
    assert not Address.parse(text).is_loopback


def test_identities_without_client_certificates_are_refused() -> None:
    """Names without a check of certificates are refused at the start."""
    tls = Tls(cert=Path("cert.pem"), key=Path("key.pem"))
    with pytest.raises(SettingsError, match=r"needs? server\.tls_client_ca"):
        Settings(tls=tls, rm_identities={"rm": frozenset({"name"})}).check()
    with pytest.raises(SettingsError, match=r"needs? server\.tls_client_ca"):
        Settings(operators=frozenset({"name"})).check()
