"""An RM that sends all its asks at once, from its own process.

`flooding` starts the process. The program registers an RM, prints ``ready``, waits for a line on stdin,
floods, and prints a line of JSON and the raw responses.
"""

import argparse
import asyncio
import io
import json
import os
import sys
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from time import perf_counter, process_time

from licorne_tools.bench import workload
from licorne_tools.bench.ceilings import frame, read_frames
from licorne_tools.bench.load import joined
from licorne_tools.bench.programs import Program, prepared, told_to_begin
from licorne_tools.bench.scenarios import Scenario

SHAPE = ("queues", "apps", "asks", "nodes", "batch")


@dataclass(frozen=True, slots=True, kw_only=True)
class Flooded:
    """The result of a flood; `cpu` is the CPU seconds of its RM."""

    allocations: int
    seconds: float
    cpu: float
    responses: list[bytes]


def flooding(target: str, rm_id: str, scenario: Scenario) -> AbstractAsyncContextManager[Program]:
    """The flooding RM, with all its messages prepared."""
    shape = [f"--{name}={getattr(scenario, name)}" for name in SHAPE]
    return prepared("the flood", "flood", target, rm_id, *shape)


async def flooded(program: Program) -> Flooded:
    """Begin the flood, and wait until its last ask is placed."""
    await program.begin()
    line, _, rest = (await program.end()).partition(b"\n")
    return Flooded(responses=list(read_frames(io.BytesIO(rest))), **json.loads(line))


async def flood(target: str, rm_id: str, scenario: Scenario) -> None:
    """Send all asks of an RM after a line on stdin, wait for their allocations, and print the result."""
    async with joined(target, scenario, rm_id) as rm:
        messages = workload.requests(rm_id, workload.asks(scenario), scenario.batch)
        await told_to_begin()
        start, cpu = perf_counter(), process_time()
        responses = await rm.place(messages, scenario.pods)
        seconds, cpu = perf_counter() - start, process_time() - cpu
    print(json.dumps({"allocations": scenario.pods, "seconds": seconds, "cpu": cpu}), flush=True)
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
    # A low priority: the benchmark is about the fairness of the server, not about the number of cores.
    os.nice(15)
    asyncio.run(flood(*arguments()))
