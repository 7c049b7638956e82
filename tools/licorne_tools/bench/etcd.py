"""An etcd with one server on loopback, with its data in memory if possible."""

import asyncio
import os
import shutil
import socket
from collections.abc import AsyncIterator
from contextlib import ExitStack, asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory, TemporaryFile

import aiohttp

from licorne_server.commands.server_process import last_lines, stop
from licorne_tools.bench.driver import BenchError

START_SECONDS = 240.0
POLL_SECONDS = 0.05

MEMORY = Path("/dev/shm")
"""A folder whose files are never written to a disk; etcd waits for its disk with each change."""


@asynccontextmanager
async def running_etcd() -> AsyncIterator[str]:
    """Start etcd, and yield its ``HOST:PORT`` for clients. It ends with the block.

    Raises:
        BenchError: etcd is not installed, or does not start.
    """
    program = shutil.which("etcd")
    if program is None:
        raise BenchError(
            "the program etcd is needed, and not on the PATH; Debian has it in the package etcd-server"
        )
    parent = MEMORY if os.access(MEMORY, os.W_OK) else None
    with TemporaryDirectory(prefix="licorne-etcd-", dir=parent) as folder, TemporaryFile() as log:
        client, peer, health = free_ports(3)
        process = await asyncio.create_subprocess_exec(
            program,
            f"--data-dir={folder}",
            f"--listen-client-urls=http://127.0.0.1:{client}",
            f"--advertise-client-urls=http://127.0.0.1:{client}",
            f"--listen-peer-urls=http://127.0.0.1:{peer}",
            f"--initial-advertise-peer-urls=http://127.0.0.1:{peer}",
            f"--initial-cluster=default=http://127.0.0.1:{peer}",
            f"--listen-metrics-urls=http://127.0.0.1:{health}",
            "--logger=zap",
            "--log-level=warn",
            stdout=log,
            stderr=log,
        )
        try:
            try:
                async with asyncio.timeout(START_SECONDS):
                    while not await _is_healthy(health):
                        if process.returncode is not None:
                            raise BenchError(f"etcd did not start:\n{last_lines(log)}")
                        await asyncio.sleep(POLL_SECONDS)
            except TimeoutError:
                text = f"etcd is not ready after {START_SECONDS:.0f} s:\n{last_lines(log)}"
                raise BenchError(text) from None
            yield f"127.0.0.1:{client}"
        finally:
            await stop(process)


async def _is_healthy(port: int) -> bool:
    try:
        async with (
            aiohttp.ClientSession() as session,
            session.get(f"http://127.0.0.1:{port}/health") as answer,
        ):
            document = await answer.json(content_type=None)
    except (OSError, aiohttp.ClientError, ValueError):
        return False
    return bool(document.get("health") == "true")


def free_ports(number: int) -> list[int]:
    """Unused ports on loopback."""
    with ExitStack() as stack:
        held = [stack.enter_context(socket.socket()) for _ in range(number)]
        for one in held:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in held]
