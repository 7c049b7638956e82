"""`State.GetServer`, the welcome and the log identify the server."""

from importlib.metadata import version

import grpc
import pytest
from structlog.testing import capture_logs

from licorne.v1 import state_pb2 as pb
from licorne.v1.state_pb2_grpc import StateStub
from licorne_server.assembly.server import Server
from licorne_server.process.settings import GRPC, Address
from support.peers.shim import RawSession, serving

VERSION = version("licorne-server")


async def test_get_server_identifies_the_server(channel: grpc.aio.Channel, server: Server) -> None:
    """The answer has the version, form, interpreter, start and protocols."""
    about = await StateStub(channel).GetServer(pb.GetServerRequest())
    assert about.version == VERSION
    assert about.form in ("pure", "compiled")
    assert "Python" in about.python or "PyPy" in about.python
    assert 0 < about.started_time <= server.clock.now() * 1e9
    assert list(about.protocols) == [1]


async def test_a_welcome_has_the_version_of_the_server(session: RawSession) -> None:
    """A welcome names the version of the server."""
    _, response = await session.begin()
    assert response.welcome.server_version == VERSION


def test_both_distributions_have_one_version() -> None:
    """The server has the version of the client with which it is released."""
    assert version("licorne-client") == VERSION


@pytest.mark.parametrize(("address", "level"), [("127.0.0.1:0", "info"), ("0.0.0.0:0", "warning")])
async def test_the_log_warns_of_grpcs_own_server(address: str, level: str) -> None:
    """A line after the start says that clients can block a server without the wheel."""
    with capture_logs() as lines:
        async with serving(transport=GRPC, listen=Address.parse(address), insecure=True):
            pass
    events = [line["event"] for line in lines]
    at = events.index("gRPC is served by its own library")
    assert (events[at - 1], lines[at]["log_level"]) == ("started", level)
    assert "licorne-transport" in lines[at]["means"]
