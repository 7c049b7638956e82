"""Log levels requested by RMs and set by operators on a real server (spec §§ 2.8, 13.5)."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import grpc
import pytest

from licorne.v1 import admin_pb2 as pb
from licorne.v1.admin_pb2_grpc import AdminStub
from support.peers.shim import Shim, ask, new_allocations
from support.server.process_log import Log, pipe
from support.server.server_process import ServerProcess

KEY = "log.core.scheduler.level"


@asynccontextmanager
async def logged() -> AsyncIterator[tuple[grpc.aio.Channel, list[dict[str, Any]]]]:
    """A connection to a server that logs, and its log once it has ended."""
    entries: list[dict[str, Any]] = []
    with pipe() as (read, write):
        log = Log(read.fileno())
        async with ServerProcess("--log-level", "info", stderr=write.fileno()) as server:
            write.close()
            async with grpc.aio.insecure_channel(server.target) as channel:
                yield channel, entries
            assert await server.stop() == 0
        entries += log.entries()


async def tell_level(shim: Shim, level: str) -> None:
    """Update the RM's configuration with another level."""
    request = pb.UpdateConfigurationRequest(rm_id=shim.rm_id, extra_config={KEY: level})
    await AdminStub(shim.channel).UpdateConfiguration(request)


@pytest.mark.slow
@pytest.mark.row(167)
async def test_a_live_level_changes_the_output() -> None:
    """With DEBUG each command and each turn has a line; without DEBUG none has."""
    async with logged() as (channel, entries):
        shim = Shim(channel)
        allocations, _, _ = await shim.set_up()
        for level, key in (("", "before"), ("DEBUG", "meanwhile"), ("INFO", "after")):
            if level:
                await tell_level(shim, level)
            await shim.ask(allocations, ask(key))
            assert await new_allocations(allocations, 1) == {key: "n0"}
    changes = [n for n, line in enumerate(entries) if line["event"] == "log levels wanted"]
    assert [entries[n]["levels"] for n in changes] == [{KEY: "debug"}, {KEY: "info"}]
    details = [n for n, line in enumerate(entries) if line["level"] == "debug"]
    assert details
    assert changes[0] < min(details) <= max(details) < changes[1]
    told = [entries[n] for n in details]
    assert {line["rm_id"] for line in told} == {"rm"}
    (command,) = [line for line in told if line["event"] == "command"]
    assert (command["command"], command["asks"]) == ("UpdateAllocations", 1)
    assert command["logger"] == "core.scheduler.commands"
    (turn,) = [line for line in told if line["event"] == "turn"]
    assert (turn["partition"], turn["allocated"]) == ("[rm]default", 1)
    assert turn["logger"] == "core.scheduler.turns"
