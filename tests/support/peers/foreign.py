"""Drives a foreign shim: a process whose stubs are generated from the published interface alone."""

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

from support.patience import PATIENCE

PUBLISHED = Path(__file__).resolve().parents[2] / "e2e" / "published"

Message = dict[str, Any]


class Ended(Exception):
    """A stream or call has ended; `code` and `text` are those of its status."""

    def __init__(self, code: str, text: str) -> None:
        """Store code and text."""
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
        """Create it unopened."""
        self._shim = shim
        self._name = name
        self._rpc = rpc

    async def send(self, **message: Any) -> None:
        """Send a message; its fields have their published names."""
        await self._do("send", rpc=self._rpc, message=message)

    async def next(self) -> Message:
        """The next message; raises Ended if there is none."""
        return await self._shim.next(self._name)

    async def finish(self) -> None:
        """Close the sending side."""
        await self._do("finish")

    async def cancel(self) -> None:
        """Cancel the stream, and wait for its end."""
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
    """A resource manager that only knows the published interface."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        """Use that process."""
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
        """Send a command to the process."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(command).encode() + b"\n")
        await self._process.stdin.drain()

    async def next(self, stream: str) -> Message:
        """The next message of a stream; raises Ended, or TimeoutError after a while."""
        line = await asyncio.wait_for(self._lines[stream].get(), PATIENCE)
        if "ended" in line:
            if stream != "register":
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
    """A process that uses the stubs in that folder to call a server."""
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


def size(vcore: int) -> Message:
    """An amount of cores, in thousandths."""
    return {"resources": {"vcore": {"value": vcore}}}


class ForeignRm:
    """One RM on its three streams."""

    def __init__(self, rm_id: str, shim: ForeignShim) -> None:
        """Create it unregistered."""
        self.rm_id = rm_id
        self.shim = shim
        self.nodes: ForeignStream
        self.applications: ForeignStream
        self.allocations: ForeignStream

    async def start(self, config: str) -> "ForeignRm":
        """Register and open the streams."""
        await self.shim.register(self.rm_id, config)
        self.nodes = await self.shim.nodes()
        self.applications = await self.shim.applications()
        self.allocations = await self.shim.allocations()
        return self

    async def add_node(self, node_id: str = "n1", *, vcore: int = 4000, **more: Any) -> None:
        """Add a node, and wait until it is accepted."""
        node = {"nodeID": node_id, "action": "CREATE", "schedulableResource": size(vcore), **more}
        await self.nodes.send(rmID=self.rm_id, nodes=[node])
        assert await self.nodes.next() == {"accepted": [{"nodeID": node_id}]}

    async def submit(self, name: str = "app", queue: str = "root.default", **more: Any) -> None:
        """Submit an application, and wait until it is accepted."""
        new = {"applicationID": name, "queueName": queue, "ugi": {"user": "ann"}, **more}
        await self.applications.send(rmID=self.rm_id, new=[new])
        assert await self.verdict() == {"accepted": [{"applicationID": name}]}

    async def verdict(self) -> Message:
        """The next answer to an added application; changes of state are skipped."""
        while "updated" in (message := await self.applications.next()):
            pass
        return message

    async def ask(self, *keys: str, app: str = "app", vcore: int = 1000, **more: Any) -> None:
        """Send one ask for each key."""
        asks = [
            {"allocationKey": key, "applicationID": app, "resourcePerAlloc": size(vcore), **more}
            for key in keys
        ]
        await self.allocations.send(rmID=self.rm_id, allocations=asks)

    async def release(self, key: str, app: str = "app", kind: str = "STOPPED_BY_RM", **more: Any) -> None:
        """Release by key."""
        release = {"allocationKey": key, "applicationID": app, "terminationType": kind, **more}
        await self.allocations.send(rmID=self.rm_id, releases={"allocationsToRelease": [release]})

    async def new(self, count: int) -> dict[str, Message]:
        """The next `count` new allocations by key; any other message is a failure."""
        found: dict[str, Message] = {}
        while len(found) < count:
            message = await self.allocations.next()
            assert list(message) == ["new"], message
            found |= {item["allocationKey"]: item for item in message["new"]}
        return found

    async def released(self, count: int = 1) -> list[Message]:
        """The next `count` releases."""
        found: list[Message] = []
        while len(found) < count:
            message = await self.allocations.next()
            assert list(message) == ["released"], message
            found += message["released"]
        return found
