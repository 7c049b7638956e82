"""Bearer tokens: rights with a token, and refusals without."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc  # type: ignore[import-untyped]

from licorne.v1 import admin_pb2 as ap
from licorne.v1 import state_pb2 as pb
from licorne.v1.admin_pb2_grpc import AdminStub
from licorne.v1.state_pb2_grpc import StateStub
from licorne_server.assembly.server import Server
from licorne_server.process.settings import Address, Settings, SettingsError, Tls
from support.peers.shim import RawSession, Shim, connected, serving
from support.peers.tls import Bearing

MINE, OTHERS, OPERATORS, NEWER = ("token-of-" + who * 8 for who in ("a", "b", "c", "d"))
UNKNOWN = grpc.StatusCode.UNAUTHENTICATED


@pytest.fixture
def files(tmp_path: Path) -> dict[str, Any]:
    """Settings with token files for RMs `mine` and `others`, and for an operator."""
    for name, token in (("mine", MINE), ("others", OTHERS), ("operator", OPERATORS)):
        (tmp_path / name).write_text(f"{token}\n")
    return {
        "rm_tokens": {"mine": (tmp_path / "mine",), "others": (tmp_path / "others",)},
        "operator_tokens": (tmp_path / "operator",),
    }


@pytest.fixture
async def server(files: dict[str, Any]) -> AsyncIterator[Server]:
    """A server with these tokens."""
    async with serving(**files) as server:
        yield server


@pytest.fixture
async def channel(server: Server) -> AsyncIterator[grpc.aio.Channel]:
    """A channel without a token."""
    async with connected(server) as channel:
        yield channel


def bearing(channel: grpc.aio.Channel, token: str) -> Any:
    """The same channel with a token."""
    return Bearing(channel, f"Bearer {token}")


async def test_token_allows_its_rm(channel: grpc.aio.Channel) -> None:
    """The RM of a token is served on all its streams, and can read its state."""
    mine = bearing(channel, MINE)
    await Shim(mine, "mine").set_up()
    await AdminStub(mine).GetConfiguration(ap.GetConfigurationRequest(rm_id="mine"))
    call, _ = await RawSession(mine, "mine").begin()
    call.call.cancel()


async def test_token_allows_no_other_rm(channel: grpc.aio.Channel) -> None:
    """Registration, streams and state of another RM are denied."""
    await Shim(bearing(channel, OTHERS), "others").register()
    mine = bearing(channel, MINE)
    with pytest.raises(grpc.aio.AioRpcError) as refused:
        await Shim(mine, "others").register()
    assert refused.value.code() is grpc.StatusCode.PERMISSION_DENIED
    assert refused.value.details() == "this token may not act for RM others"
    answer = await StateStub(mine).ListPartitions(pb.ListPartitionsRequest())
    assert not answer.partitions


async def test_an_operator_sees_all_rms_and_acts_as_none(channel: grpc.aio.Channel) -> None:
    """An operator reads and configures every RM, and cannot act as one."""
    await Shim(bearing(channel, MINE), "mine").register()
    operator = bearing(channel, OPERATORS)
    answer = await StateStub(operator).ListPartitions(pb.ListPartitionsRequest())
    assert [item.rm_id for item in answer.partitions] == ["mine"]
    with pytest.raises(grpc.aio.AioRpcError) as refused:
        await Shim(operator, "mine").register()
    assert refused.value.code() is grpc.StatusCode.PERMISSION_DENIED


@pytest.mark.parametrize(
    "values",
    [
        pytest.param((), id="none"),
        pytest.param((f"Bearer {MINE}x",), id="longer"),
        pytest.param((f"Bearer {MINE[:-1]}",), id="shorter"),
        pytest.param((f"Basic {MINE}",), id="another scheme"),
        pytest.param((MINE,), id="no scheme"),
        pytest.param(("Bearer ",), id="empty"),
        pytest.param((f"Bearer {MINE}", f"Bearer {OTHERS}"), id="two"),
    ],
)
async def test_calls_without_a_valid_token_are_refused(
    channel: grpc.aio.Channel, values: tuple[str, ...]
) -> None:
    """Every call without a valid token ends with the same status and text."""
    nobody: Any = Bearing(channel, *values)
    shim = Shim(nobody, "mine")
    ended = {await shim.open("UpdateNode").ending(), await RawSession(nobody).open().ending()}
    for call in (
        shim.register,
        lambda: StateStub(nobody).ListPartitions(pb.ListPartitionsRequest()),
        lambda: AdminStub(nobody).ValidateConfiguration(ap.ValidateConfigurationRequest()),
        lambda: StateStub(nobody).WatchEvents(pb.WatchEventsRequest()).read(),
    ):
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await call()
        ended.add((refused.value.code(), refused.value.details() or ""))
    assert ended == {(UNKNOWN, "a valid token is needed")}


async def test_probes_need_no_token(channel: grpc.aio.Channel) -> None:
    """Health checks need no token."""
    stub = health_pb2_grpc.HealthStub(channel)
    answer = await stub.Check(health_pb2.HealthCheckRequest())
    assert answer.status == health_pb2.HealthCheckResponse.SERVING


async def test_a_reload_replaces_tokens_unless_a_file_is_unusable(
    server: Server, channel: grpc.aio.Channel, files: dict[str, Any]
) -> None:
    """After a reload the token in the file is valid; an unusable file changes nothing."""
    [file] = files["rm_tokens"]["mine"]
    file.write_text("short")
    server.reload()
    await Shim(bearing(channel, MINE), "mine").register()
    file.write_text(NEWER)
    server.reload()
    await Shim(bearing(channel, NEWER), "mine").register()
    with pytest.raises(grpc.aio.AioRpcError) as refused:
        await Shim(bearing(channel, MINE), "mine").register()
    assert refused.value.code() is UNKNOWN


async def test_a_token_may_belong_to_two_rms_and_an_rm_may_have_two(tmp_path: Path) -> None:
    """Files add up: during a replacement both tokens are valid."""
    for token in (MINE, NEWER):
        (tmp_path / token).write_text(token)
    tokens = {"mine": (tmp_path / MINE, tmp_path / NEWER), "others": (tmp_path / MINE,)}
    async with serving(rm_tokens=tokens) as server, connected(server) as channel:
        await Shim(bearing(channel, NEWER), "mine").register()
        for rm_id in ("mine", "others"):
            await Shim(bearing(channel, MINE), rm_id).register()
        with pytest.raises(grpc.aio.AioRpcError):
            await Shim(bearing(channel, NEWER), "others").register()


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"short", "access.rm_token_files mine=.*: the token has 5 characters, 16 to 4096 are allowed"),
        (b"x" * 5000, "access.rm_token_files mine=.*: the token has 4099 characters"),
        (b"two words of a token", "access.rm_token_files mine=.*: .* printable ASCII without blanks"),
        ("é".encode() * 20, "access.rm_token_files mine=.*: .* printable ASCII without blanks"),
        (None, "access.rm_token_files mine=.*: cannot read .*: No such file"),
    ],
)
def test_file_without_a_token_is_named(tmp_path: Path, content: bytes | None, problem: str) -> None:
    """A file without a token stops the start, with option, file and reason."""
    file = tmp_path / "token"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(SettingsError, match=problem):
        Server(Settings(rm_tokens={"mine": (file,)}))


def test_tokens_are_not_sent_in_the_clear() -> None:
    """Off loopback tokens need TLS, whatever else is insecure; certificates suffice."""
    file = (Path("token"),)
    elsewhere = Address(host="0.0.0.0", port=0)
    with pytest.raises(SettingsError, match=r"access\.operator_token_files needs TLS on 0\.0"):
        Settings(listen=elsewhere, insecure=True, operator_tokens=file).check()
    tls = Tls(cert=Path("c"), key=Path("k"), client_ca=Path("a"))
    with pytest.raises(SettingsError, match=r"cannot be used with server\.tls_client_ca$"):
        Settings(tls=tls, rm_tokens={"mine": file}).check()
