"""Plans of servers in processes: no copy remains, and settings of gRPC do not matter."""

import asyncio
import os
import socket
import sys
from pathlib import Path
from typing import Any

import grpc
import pytest

from licorne.v1 import admin_pb2 as pb
from licorne.v1.admin_pb2_grpc import AdminStub
from licorne_server import FORK_VARIABLE
from support.peers.shim import Shim, eventually
from support.server.configuring import A, B
from support.server.server_process import ServerProcess
from support.server.settings_file import settings_file

PATIENT = settings_file(bounds={"max_plan_pause": 60})
"""Settings that allow a copy, however long it takes on a busy machine."""
PLANNER = Path(__file__).parents[1] / "support" / "server" / "sleeping_planner.py"


def runs(pid: int) -> bool:
    """True if the process runs; an ended one may wait for its new parent to reap it."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def can_listen(target: str) -> bool:
    """True if the port is free."""
    host, _, port = target.rpartition(":")
    with socket.socket() as one:
        one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            one.bind((host, int(port)))
        except OSError:
            return False
    return True


@pytest.mark.slow
@pytest.mark.parametrize("end", ["killed", "stopped"])
async def test_a_server_that_ends_during_a_plan_leaves_nothing(end: str, tmp_path: Path) -> None:
    """The port of the server is free at once, and the copy ends with the server."""
    file = tmp_path / "pid"
    program = (sys.executable, str(PLANNER), str(file))
    async with (
        ServerProcess(*PATIENT, program=program) as server,
        grpc.aio.insecure_channel(server.target) as channel,
    ):
        await Shim(channel).register(A)
        admin: Any = AdminStub(channel)
        call = admin.PlanConfiguration(pb.PlanConfigurationRequest(rm_id="rm", config=B))
        plan = asyncio.ensure_future(call)
        await eventually(file.exists)
        pid = int(file.read_text())
        assert runs(pid)
        if end == "killed":
            await server.kill()
            assert can_listen(server.target)
        else:
            assert await server.stop() == 0
            assert not runs(pid)
        with pytest.raises(grpc.aio.AioRpcError) as error:
            await plan
        assert error.value.code() is grpc.StatusCode.UNAVAILABLE
        await eventually(lambda: not runs(pid))


@pytest.mark.slow
@pytest.mark.parametrize("setting", ["", "1", "0"])
async def test_plans_do_not_depend_on_the_fork_support_of_grpc(
    setting: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With gRPC's variable about forks set or not, plans are computed one after the other, without output."""
    monkeypatch.delenv(FORK_VARIABLE)
    if setting:
        monkeypatch.setenv(FORK_VARIABLE, setting)
    reader, writer = os.pipe()
    async with (
        ServerProcess(*PATIENT, stderr=writer) as server,
        grpc.aio.insecure_channel(server.target) as channel,
    ):
        os.close(writer)
        await Shim(channel).register(A)
        admin: Any = AdminStub(channel)
        for _ in range(3):
            request = pb.PlanConfigurationRequest(rm_id="rm", config=B)
            assert (await admin.PlanConfiguration(request)).changed
        assert await server.stop() == 0
    told = os.read(reader, 4_096)
    os.close(reader)
    assert told == b""
