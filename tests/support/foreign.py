"""Drives the foreign shim: a process with stubs made from the published interface alone."""

import asyncio
import json
import os
import subprocess
import sys
from collections import defaultdict
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

PUBLISHED = Path(__file__).resolve().parent.parent / "e2e" / "published"
PATIENCE = 10.0
"""Seconds after which an answer that did not come fails the test."""

Message = dict[str, Any]


class Ended(Exception):
    """A stream or a call has ended; `code` and `text` are those of its status."""

    def __init__(self, code: str, text: str) -> None:
        """Keep both."""
        super().__init__(f"{code}: {text}")
        self.code = code
        self.text = text


def generate(folder: Path) -> None:
    """Make Python stubs of the published interface in that folder."""
    subprocess.run(
        [
            *(sys.executable, "-m", "grpc_tools.protoc"),
            *(f"-I{PUBLISHED}", f"--python_out={folder}", f"--grpc_python_out={folder}"),
            "scheduler_interface.proto",
        ],
        check=True,
    )


class ForeignStream:
    """One of the three streams."""

    def __init__(self, shim: "ForeignShim", name: str, rpc: str) -> None:
        """Not opened yet."""
        self._shim = shim
        self._name = name
        self._rpc = rpc

    async def send(self, **message: Any) -> None:
        """Send a message, its fields by their published names."""
        await self._do("send", rpc=self._rpc, message=message)

    async def next(self) -> Message:
        """The next message. Raises Ended when there is none any more."""
        return await self._shim.next(self._name)

    async def finish(self) -> None:
        """Send nothing more."""
        await self._do("finish")

    async def cancel(self) -> None:
        """Break the stream off, and wait until it is gone."""
        await self._do("cancel")
        try:
            while True:
                await self.next()
        except Ended:
            pass

    async def open(self) -> "ForeignStream":
        """Open it."""
        await self._do("open", rpc=self._rpc)
        return self

    async def _do(self, what: str, **details: Any) -> None:
        await self._shim.do(do=what, stream=self._name, **details)


class ForeignShim:
    """A resource manager that has nothing but the published interface."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        """Talk to that process."""
        self._process = process
        self._lines: defaultdict[str, asyncio.Queue[Message]] = defaultdict(asyncio.Queue)
        self._opened = 0
        self._listener = asyncio.create_task(self._listen())

    async def register(self, rm_id: str, config: str = "", **more: Any) -> Message:
        """Register; returns the response. Raises Ended with the status of a failure."""
        await self.do(do="register", message={"rmID": rm_id, "config": config, **more})
        return await self.next("register")

    async def nodes(self) -> ForeignStream:
        """Open a stream for nodes."""
        return await self._open("UpdateNode")

    async def applications(self) -> ForeignStream:
        """Open a stream for applications."""
        return await self._open("UpdateApplication")

    async def allocations(self) -> ForeignStream:
        """Open a stream for allocations."""
        return await self._open("UpdateAllocation")

    async def _open(self, rpc: str) -> ForeignStream:
        self._opened += 1
        return await ForeignStream(self, f"{rpc}-{self._opened}", rpc).open()

    async def do(self, **command: Any) -> None:
        """Hand the process a command."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(command).encode() + b"\n")
        await self._process.stdin.drain()

    async def next(self, stream: str) -> Message:
        """The next message of a stream. Raises Ended, or TimeoutError after a while."""
        line = await asyncio.wait_for(self._lines[stream].get(), PATIENCE)
        if "ended" in line:
            self._lines[stream].put_nowait(line)
            raise Ended(*line["ended"])
        message: Message = line["message"]
        return message

    async def _listen(self) -> None:
        assert self._process.stdout is not None
        async for raw in self._process.stdout:
            line = json.loads(raw)
            self._lines[line["stream"]].put_nowait(line)

    async def close(self) -> None:
        """End the process."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        await self._process.wait()
        await self._listener


@asynccontextmanager
async def foreign_shim(target: str, stubs: Path) -> AsyncIterator[ForeignShim]:
    """A process that uses the stubs in that folder against a server."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, str(PUBLISHED / "foreign_shim.py"), target),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        limit=2**24,
        env={**os.environ, "PYTHONPATH": str(stubs)},
    )
    shim = ForeignShim(process)
    try:
        yield shim
    finally:
        await shim.close()
