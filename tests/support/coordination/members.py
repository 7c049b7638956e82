"""Real servers that are members, with Kubernetes as their store."""

import asyncio
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from support.patience import PATIENCE
from support.server.settings_file import settings_file


@dataclass(frozen=True, slots=True)
class Running:
    """A server that runs, or was killed."""

    process: asyncio.subprocess.Process
    address: str


@asynccontextmanager
async def member(
    name: str, config: Path, store: str, lease: float, *, listen: str = "127.0.0.1:0"
) -> AsyncIterator[Running]:
    """A member with the credentials of a kubeconfig; a test may kill it before the end of the block."""
    coordination = {"store": store, "lease": lease, "name": name}
    flags = ("--listen", listen, "--http", "off", *settings_file(coordination=coordination))
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "licorne_server", "serve", *flags),
        env={**os.environ, "KUBECONFIG": str(config)},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
    )
    try:
        assert process.stdout is not None
        async with asyncio.timeout(PATIENCE):
            words = dict(word.split("=") for word in (await process.stdout.readline()).decode().split()[1:])
        yield Running(process, words["grpc"])
    finally:
        if process.returncode is None:
            process.terminate()
        await process.wait()
