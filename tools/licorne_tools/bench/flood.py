"""An RM that sends all its asks at once, from a process of its own.

`flooding` starts the process. The program registers an RM, prints ``ready``, waits for a line on stdin,
floods, and prints a line of JSON and the raw responses.
"""

import argparse
import asyncio
import io
import json
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from time import perf_counter

from licorne_tools.bench import workload
from licorne_tools.bench.ceilings import frame, read_frames
from licorne_tools.bench.driver import BenchError
from licorne_tools.bench.load import joined
from licorne_tools.bench.scenarios import Scenario

SHAPE = ("queues", "apps", "asks", "nodes", "batch")


@dataclass(frozen=True, slots=True, kw_only=True)
class Flooded:
    """The result of a flood."""

    allocations: int
    seconds: float
    responses: list[bytes]


class Flood:
    """A prepared flood."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        """Take the process of the flood, which has printed ``ready``."""
        self._process = process

    async def run(self) -> Flooded:
        """Begin the flood, and wait until its last ask is placed."""
        output, _ = await self._process.communicate(b"go\n")
        line, _, rest = output.partition(b"\n")
        if self._process.returncode != 0:
            raise BenchError("the flood failed")
        responses = list(read_frames(io.BytesIO(rest)))
        return Flooded(responses=responses, **json.loads(line))


@asynccontextmanager
async def flooding(target: str, rm_id: str, scenario: Scenario) -> AsyncIterator[Flood]:
    """Start the flooding RM, and prepare all its messages."""
    shape = [f"--{name}={getattr(scenario, name)}" for name in SHAPE]
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "licorne_tools.bench.flood", target, rm_id, *shape),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    assert process.stdout is not None
    try:
        if await process.stdout.readline() != b"ready\n":
            raise BenchError("the flood could not be prepared")
        yield Flood(process)
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


async def flood(target: str, rm_id: str, scenario: Scenario) -> None:
    """The program."""
    async with joined(target, scenario, rm_id) as rm:
        messages = workload.requests(rm_id, workload.asks(scenario), scenario.batch)
        print("ready", flush=True)
        await asyncio.to_thread(sys.stdin.readline)
        start = perf_counter()
        responses = await rm.place(messages, scenario.pods)
        seconds = perf_counter() - start
    print(json.dumps({"allocations": scenario.pods, "seconds": seconds}), flush=True)
    sys.stdout.buffer.write(b"".join(map(frame, responses)))


def arguments() -> tuple[str, str, Scenario]:
    """Target, rmID and shape from the command line."""
    parser = argparse.ArgumentParser()
    parser.add_argument("target")
    parser.add_argument("rm_id")
    for name in SHAPE:
        parser.add_argument(f"--{name}", type=int, required=True)
    args = parser.parse_args()
    shape = {name: getattr(args, name) for name in SHAPE}
    return args.target, args.rm_id, Scenario(name="flood", about="", **shape)


if __name__ == "__main__":
    # The bench is about the fairness of the server, not about the number of cores.
    os.nice(15)
    asyncio.run(flood(*arguments()))
