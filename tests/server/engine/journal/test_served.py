"""A server with a journal: its RMs, its crashes, and its reports of a stopped journal."""

import shutil
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from structlog.testing import capture_logs

from licorne.si.v1 import si_pb2 as si
from licorne_core.scheduler import Scheduler
from licorne_core.values.ids import RmId
from licorne_server.assembly.server import Server
from licorne_server.engine.journal.codec import read
from licorne_server.process.settings import SettingsError
from support.journal import replayed
from support.peers.shim import (
    LOOPBACK,
    Call,
    Shim,
    ask,
    connected,
    eventually,
    hang_up,
    new_allocations,
    releases,
    serving,
)

RMS = ("red", "green", "blue")


def books(scheduler: Scheduler) -> list[Any]:
    """The reports about the partitions of all RMs."""
    return [scheduler.views.partitions(RmId(rm_id)) for rm_id in RMS]


async def work(server: Server, shim: Shim) -> tuple[Call, Call, Call]:
    """Register the RM, place its asks, release one, and leave one waiting that is too large."""
    calls = await shim.set_up(nodes=3)
    allocations = calls[0]
    await shim.ask(allocations, *(ask(f"{shim.rm_id}-{number}") for number in range(20)))
    await new_allocations(allocations, 20)
    gone = si.AllocationRelease(
        partitionName=f"[{shim.rm_id}]default", applicationID="app", allocationKey=f"{shim.rm_id}-3"
    )
    await allocations.send(si.AllocationRequest(rmID=shim.rm_id, releases=releases(gone)))
    await shim.ask(allocations, ask("large", vcore=10_000))
    await eventually(lambda: server.scheduler.views.partitions(RmId(shim.rm_id))[0].pending_asks == 1)
    return calls


async def test_run_with_crashes_is_replayed(tmp_path: Path) -> None:
    """The journal of a crashed server and of its restart is replayed to the decisions of both runs."""
    live: list[Any] = []
    for _ in range(2):
        async with (
            serving(journal=tmp_path) as server,
            connected(server) as one,
            connected(server) as other,
        ):
            shims = [Shim(channel, rm_id) for channel, rm_id in zip((one, other, one), RMS, strict=True)]
            calls = [await work(server, shim) for shim in shims]
            await hang_up(server, *calls[0], rm_id=shims[0].rm_id)
            await work(server, shims[0])
            live = books(server.scheduler)
            await server.stop(at_once=True)
    replay = replayed(read(tmp_path))
    assert (replay.runs, replay.torn, replay.differing) == (2, [], [])
    assert replay.digests > 2
    assert books(replay.scheduler) == live


async def test_a_stopped_journal_is_reported(tmp_path: Path) -> None:
    """Health, the probes and the metrics report a stopped journal; RMs are served as before."""
    folder = tmp_path / "journal"
    async with (
        serving(journal=folder, http=LOOPBACK) as server,
        connected(server) as channel,
        aiohttp.ClientSession(f"http://{server.http_address}") as http,
    ):

        async def get(path: str) -> str:
            async with http.get(path) as answer:
                assert answer.status == 200
                return await answer.text()

        assert await get("/readyz") == "ok\n"
        assert "\nlicorne_journal_writing 1\n" in await get("/metrics")
        shutil.rmtree(folder)
        calls = await Shim(channel, "red").set_up()
        state = server.journal.state
        assert state is not None
        await eventually(lambda: state.problem)
        problem = f"{folder} was removed or replaced"
        text = f"the journal is not written any more: {problem}"
        assert text in await get("/ws/v1/scheduler/healthcheck")
        await Shim(channel, "red").ask(calls[0], ask("one"))
        assert await new_allocations(calls[0], 1) == {"one": "n0"}


async def test_directory_that_cannot_be_used_is_refused(tmp_path: Path) -> None:
    """A server does not start with another server's journal, or with a file in place of the directory."""
    file = tmp_path / "file"
    file.write_text("")
    with pytest.raises(SettingsError, match=f"server.journal {file} cannot be used: "):
        async with serving(journal=file):
            pass
    async with serving(journal=tmp_path):
        with pytest.raises(SettingsError, match=f"server.journal {tmp_path} cannot be used: another server"):
            async with serving(journal=tmp_path):
                pass


async def test_server_starts_on_a_full_disk(tmp_path: Path, full_disk: Any) -> None:
    """On a full disk a server starts without a journal, and serves as usual."""
    with capture_logs() as logs, full_disk(10):
        async with serving(journal=tmp_path) as server, connected(server) as channel:
            assert server.journal.state is not None
            assert server.journal.state.problem == "File too large"
            await Shim(channel, "red").set_up()
    [line] = [line for line in logs if line["event"] == "journal stopped"]
    assert (line["log_level"], line["reason"]) == ("warning", "File too large")
