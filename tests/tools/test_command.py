"""The processes of a benchmark do not outlive it."""

import os
import select
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import pytest

from support.patience import PATIENCE

STARTS = """
import asyncio

from licorne_tools.bench.ceilings import STREAM, bare_server
from licorne_server.commands.server_process import running_server

async def main():
    async with running_server() as server, bare_server(STREAM, [b"x", b"y"]) as bare:
        print(server.pid, bare.pid, flush=True)
        await asyncio.Event().wait()

asyncio.run(main())
"""
"""A process that has both kinds of servers, and prints their handles."""


@contextmanager
def parent() -> Iterator[tuple[subprocess.Popen[str], list[int]]]:
    """The process, and handles of its servers, each readable when its server has ended."""
    with subprocess.Popen([sys.executable, "-c", STARTS], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        servers: list[int] = []
        try:
            servers += [os.pidfd_open(int(pid)) for pid in process.stdout.readline().split()]
            yield process, servers
        finally:
            process.kill()
            for server in servers:
                with suppress(ProcessLookupError):
                    signal.pidfd_send_signal(server, signal.SIGKILL)
                os.close(server)


def has_ended(server: int) -> bool:
    """Whether the server of this handle ends within the patience of tests."""
    return bool(select.select([server], [], [], PATIENCE)[0])


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_servers_end_with_their_parent(number: signal.Signals) -> None:
    """The servers end whatever ends their parent, even if it has no time to stop them."""
    with parent() as (process, servers):
        assert len(servers) == 2
        assert not select.select(servers, [], [], 0)[0]
        process.send_signal(number)
        assert process.wait(PATIENCE) == -number
        assert [has_ended(server) for server in servers] == [True, True]
