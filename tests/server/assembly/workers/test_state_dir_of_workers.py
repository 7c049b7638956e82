"""`--workers N --state-dir DIR`: operators' acts outlive supervisor and workers, and changes of N."""

import asyncio
import os
import resource
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from subprocess import DEVNULL
from typing import Any

import grpc
import pytest

from licorne.v1 import admin_pb2 as pb
from licorne.v1 import state_pb2 as sp
from licorne.v1.admin_pb2_grpc import AdminStub
from licorne.v1.state_pb2_grpc import StateStub
from support.patience import PATIENCE
from support.peers.shim import Shim
from support.server.configuring import A, Admin, B, C, D, refusal
from support.server.server_process import PROGRAM, ServerProcess
from support.server.settings_file import settings_file

pytestmark = pytest.mark.timeout(1200)
"""Each test starts several servers of several processes, which a slow machine needs time for."""

BUDGETS = "budgets: [{name: company, limit: {vcore: 300m}, members: [{rm: '*'}]}]"
AT_ONCE = settings_file(server={"drain": 0})
WIDER = BUDGETS.replace("300m", "500m")


def serving(folder: Path, *flags: str, workers: int = 2) -> ServerProcess:
    """A server with this state directory; with one worker it is a single server."""
    many = ("--workers", str(workers)) if workers > 1 else ()
    return ServerProcess(*many, "--state-dir", str(folder), *AT_ONCE, *flags, stderr=DEVNULL)


async def registers(channel: grpc.aio.Channel) -> bool:
    """True if an RM can register."""
    try:
        await Shim(channel, "probe").register(A)
    except grpc.aio.AioRpcError as error:
        if error.code() is not grpc.StatusCode.UNAVAILABLE:
            raise
        return False
    return True


@asynccontextmanager
async def connected(server: ServerProcess) -> AsyncIterator[grpc.aio.Channel]:
    """A new channel, independent of earlier servers, to a worker that has its lease."""
    options = [("grpc.use_local_subchannel_pool", 1)]
    async with grpc.aio.insecure_channel(server.target, options=options) as channel:
        async with asyncio.timeout(PATIENCE):
            while not await registers(channel):  # noqa: ASYNC110
                await asyncio.sleep(0.05)
        yield channel


async def started(server: ServerProcess) -> None:
    """Start on the port of an earlier run, once its workers have freed port and directory."""
    async with asyncio.timeout(PATIENCE):
        while True:
            await asyncio.sleep(0.05)
            try:
                return await server.start()
            except KeyError:
                # The process ended without the line that has its address.
                await server.kill()


async def mark(channel: grpc.aio.Channel) -> None:
    """Apply a configuration, drain a node, stop a queue, and set budgets."""
    await Shim(channel).set_up(config=A)
    admin: Any = AdminStub(channel)
    assert (await Admin(channel).apply(B + "# applied\n", comment="why")).persistent
    await Admin(channel).apply(A + "# applied\n")
    await admin.SetNodeSchedulable(pb.SetNodeSchedulableRequest(rm_id="rm", node_id="n0", message="disk"))
    await admin.SetQueueStopped(pb.SetQueueStoppedRequest(rm_id="rm", queue="root.a", stopped=True))
    updated = await admin.UpdateBudgets(pb.UpdateBudgetsRequest(budgets=BUDGETS, comment="year"))
    assert updated.persistent


async def marks(channel: grpc.aio.Channel) -> dict[str, Any]:
    """The marks in force with their operators, for an RM that registers as before."""
    await Shim(channel).set_up(config=A)
    state: Any = StateStub(channel)
    nodes = (await state.ListNodes(sp.ListNodesRequest(partition="[rm]default"))).nodes
    queues = (await state.ListQueues(sp.ListQueuesRequest(partition="[rm]default"))).queues
    history = await Admin(channel).history(with_config=True)
    return {
        "in force": await Admin(channel).in_force(),
        "history": [(item.revision, item.source, item.time, item.comment, item.config) for item in history],
        "drained": [node.node_id for node in nodes if node.drained],
        "stopped": [queue.path for queue in queues if queue.state == "Stopped"],
        "budgets": await budgets(channel),
    }


async def budgets(channel: grpc.aio.Channel) -> tuple[str, str, str]:
    """The budgets in force, with source and comment."""
    admin: Any = AdminStub(channel)
    found = await admin.GetBudgets(pb.GetBudgetsRequest())
    return found.budgets, found.source, found.comment


MARKED = {
    "in force": (A + "# applied\n", 3, "operator"),
    "drained": ["n0"],
    "stopped": ["root.a"],
    "budgets": (BUDGETS, "operator", "year"),
}


def children(pid: int) -> list[int]:
    """The processes that a process has started."""
    return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


@pytest.mark.slow
async def test_acts_of_operators_survive_all_processes(tmp_path: Path) -> None:
    """After kill -9 of all processes, and after a stop, all acts are in force, with their history."""
    async with serving(tmp_path) as server:
        async with connected(server) as channel:
            await mark(channel)
            before = await marks(channel)
            assert before | MARKED == before
        for pid in [*children(server.pid), server.pid]:
            os.kill(pid, signal.SIGKILL)
        await server.ended()
        await started(server)
        async with connected(server) as channel:
            assert await marks(channel) == before
        assert await server.stop() == 0
        await started(server)
        async with connected(server) as channel:
            assert await marks(channel) == before


@pytest.mark.slow
async def test_workers_and_a_single_server_share_a_directory(tmp_path: Path) -> None:
    """Workers and a single server read the state that the other has stored."""
    async with serving(tmp_path, workers=1) as server:
        async with connected(server) as channel:
            await mark(channel)
            before = await marks(channel)
        assert await server.stop() == 0
    async with serving(tmp_path) as server:
        async with connected(server) as channel:
            assert await marks(channel) == before
            assert (await Admin(channel).apply(A + "# more\n", base=3)).revision == 4
            request = pb.UpdateBudgetsRequest(budgets=WIDER, base_revision=1)
            assert (await AdminStub(channel).UpdateBudgets(request)).revision == 2
        assert await server.stop() == 0
    async with serving(tmp_path, workers=1) as server, connected(server) as channel:
        after = await marks(channel)
        assert after["in force"] == (A + "# more\n", 4, "operator")
        assert after["history"][1:] == before["history"]
        assert (after["drained"], after["stopped"]) == (["n0"], ["root.a"])
        assert after["budgets"][0] == WIDER
        request = pb.UpdateBudgetsRequest(budgets=BUDGETS, base_revision=2)
        assert (await AdminStub(channel).UpdateBudgets(request)).revision == 3


@pytest.mark.slow
async def test_a_full_disk_refuses_changes_with_the_reason(tmp_path: Path) -> None:
    """On a full disk a change is refused, RMs are served, and changes succeed once there is room."""
    async with serving(tmp_path) as server:
        async with connected(server) as channel:
            await Shim(channel).register(A)
            admin = Admin(channel)
            server.limit_size_of_files(0)
            update: Any = AdminStub(channel).UpdateBudgets
            for change in (admin.apply(B), admin.apply(C), update(pb.UpdateBudgetsRequest(budgets=BUDGETS))):
                with pytest.raises(grpc.aio.AioRpcError) as error:
                    await change
                assert refusal(error.value).reason == "NOT_STORED"
                assert "state.sqlite: disk I/O error" in refusal(error.value).text
            assert await admin.in_force() == (A, 1, "registration")
            assert await budgets(channel) == ("", "", "")
            await Shim(channel, "late").register(D)
            server.limit_size_of_files(resource.RLIM_INFINITY)
            assert (await admin.apply(B)).persistent
            assert (await Admin(channel, "late").apply(C)).persistent
            assert (await update(pb.UpdateBudgetsRequest(budgets=BUDGETS))).persistent
        await server.kill()
        await started(server)
        async with connected(server) as channel:
            for name, registered, running in (("rm", A, B), ("late", D, C)):
                await Shim(channel, name).register(registered)
                assert await Admin(channel, name).in_force() == (running, 2, "operator")
            assert (await budgets(channel))[0] == BUDGETS


@pytest.mark.slow
async def test_state_in_memory_is_not_reported_as_persistent() -> None:
    """State in the supervisor's memory ends with it, and answers say so."""
    async with ServerProcess("--workers", "2", *AT_ONCE) as server, connected(server) as channel:
        await Shim(channel).register(A)
        assert not (await Admin(channel).apply(B)).persistent
        update: Any = AdminStub(channel).UpdateBudgets
        assert not (await update(pb.UpdateBudgetsRequest(budgets=BUDGETS))).persistent


@pytest.mark.slow
async def test_a_changed_file_of_budgets_replaces_its_stored_text(tmp_path: Path) -> None:
    """The file is used at the start if the stored budgets are from it; an operator's budgets stay."""
    file = tmp_path / "budgets.yaml"
    state = tmp_path / "state"
    file.write_text(BUDGETS)
    async with serving(state, "--budgets", str(file), workers=4) as server:
        assert await server.stop() == 0
        file.write_text(WIDER)
        await started(server)
        async with connected(server) as channel:
            assert (await budgets(channel))[:2] == (WIDER, "file")
            update: Any = AdminStub(channel).UpdateBudgets
            await update(pb.UpdateBudgetsRequest(budgets=BUDGETS))
        assert await server.stop() == 0
        await started(server)
        async with connected(server) as channel:
            assert (await budgets(channel))[:2] == (BUDGETS, "operator")


async def refused(folder: Path, *flags: str) -> str:
    """The message of a server that does not start with this directory."""
    where = ("--listen", "127.0.0.1:0", "--http", "off", "--state-dir", str(folder))
    process = await asyncio.create_subprocess_exec(
        *(*PROGRAM, "serve", "--log-level", "error", *where, *flags),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    async with asyncio.timeout(PATIENCE):
        out, err = await process.communicate()
    assert (out, process.returncode) == (b"", 1)
    return err.decode()


@pytest.mark.slow
async def test_a_directory_has_one_owner(tmp_path: Path) -> None:
    """A second supervisor, or a single server, is refused before it starts a worker."""
    in_use = f"licorne: --state-dir {tmp_path} cannot be used: another server uses it\n"
    async with serving(tmp_path):
        assert await refused(tmp_path, "--workers", "2") == in_use
        assert await refused(tmp_path) == in_use
    async with serving(tmp_path, workers=1):
        assert await refused(tmp_path, "--workers", "2") == in_use


@pytest.mark.slow
async def test_a_damaged_directory_prevents_the_start(tmp_path: Path) -> None:
    """Workers refuse a damaged directory with the same error as a single server, which names the file."""
    (tmp_path / "state.sqlite").write_bytes(b"no database, but long enough to be read as one" * 9)
    single = await refused(tmp_path)
    assert "state.sqlite is damaged" in single
    assert await refused(tmp_path, "--workers", "2") == single
