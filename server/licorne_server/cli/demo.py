"""`licorne demo`: a real server and three resource managers over loopback, on the terminal."""

import argparse
import asyncio
import sys
from collections.abc import Sequence
from math import ceil
from time import perf_counter
from typing import TYPE_CHECKING

import grpc
from rich.console import Console

from licorne import LicorneError
from licorne.v1.state_pb2 import (
    ExplainRequest,
    ExplainResponse,
    ListPartitionsRequest,
    ListQueuesRequest,
    Partition,
)
from licorne.v1.state_pb2_grpc import StateStub
from licorne_server.bench.server_process import ServerFailed, Usage, running_server
from licorne_server.cli.board import Board, Snapshot
from licorne_server.cli.demo_rm import DemoRm, Tally
from licorne_server.cli.demo_scenes import (
    BORROWER,
    BORROWER_QUEUE,
    GANG,
    OWNER,
    OWNER_QUEUE,
    WAITING_APPLICATION,
)
from licorne_server.cli.demo_world import worlds
from licorne_server.cli.explain import print_explanation
from licorne_server.cli.output import human_bytes, is_terminal, say

if TYPE_CHECKING:
    from licorne.v1.state_pb2_grpc import StateAsyncStub

EXAMPLES = (
    ("licorne demo", "watch it"),
    ("licorne demo --seconds 25", "for as long as it can"),
)
FAILED = 2
INTERRUPTED = 130
DEFAULT_SECONDS = 15.0
LONGEST_SECONDS = 25.0
PICTURE_SECONDS = 0.25
# When the question is asked, as a share of the whole time.
EXPLAIN_AT = 0.45
# The RM whose work always finds room: its waits are the scheduler's doing alone.
PROMPT_RM = "services"
EXPLAINED_RM = "batch"
GANG_RM = "research"
REST_PARTITIONS = "/ws/v1/partitions"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of `licorne demo`."""
    parser.add_argument(
        "--seconds",
        type=seconds,
        default=DEFAULT_SECONDS,
        metavar="S",
        help=f"how long, up to {LONGEST_SECONDS:.0f} (%(default)s)",
    )


def seconds(text: str) -> float:
    """A time that is worth watching and not too long."""
    value = float(text)
    if not 1.0 <= value <= LONGEST_SECONDS:
        raise argparse.ArgumentTypeError(f"{text} is not between 1 and {LONGEST_SECONDS:.0f}")
    return value


def run(args: argparse.Namespace) -> int:
    """Play the demo; 0, 2 when the server could not be started or was lost, 130 if interrupted."""
    status = 0
    try:
        asyncio.run(play(args.seconds))
    except* ServerFailed as failures:
        say(f"licorne: {failures.exceptions[0]}")
        status = FAILED
    except* (grpc.aio.AioRpcError, LicorneError) as failures:
        say(f"licorne: lost the server: {failures.exceptions[0]}")
        status = FAILED
    except* KeyboardInterrupt:
        say("stopped")
        status = INTERRUPTED
    return status


async def play(length: float) -> None:
    """Start a server, let the RMs work side by side, and print what came of it."""
    terminal = is_terminal(sys.stdout)
    console = Console(force_terminal=terminal, highlight=False)
    rms = [DemoRm(world, length) for world in worlds()]
    async with running_server(http="127.0.0.1:0") as server:
        say(f"server: grpc={server.target}, REST http://{server.http}{REST_PARTITIONS}")
        if not terminal:
            say("each second, how much of the cores of each cluster is allocated:")
        async with (
            grpc.aio.insecure_channel(server.target) as channel,
            asyncio.TaskGroup() as group,
        ):
            players = [
                group.create_task(rm.play(server.target, iter(rm.world.submissions))) for rm in rms
            ]
            spectator = Spectator(StateStub(channel), rms)
            with Board(console) as board:
                await spectator.watch(board, length)
            for player in players:
                player.cancel()
        usage = server.usage()
    print(f"\nafter {spectator.seconds:.1f} s")
    print("\n".join(summary(rms, spectator, usage)))
    if spectator.explanation is not None:
        print(f"\nlicorne explain {WAITING_APPLICATION}, asked while the RMs were at work:\n")
        print_explanation(spectator.explanation)


class Spectator:
    """Looks at the server through its State service while the RMs play."""

    def __init__(self, stub: "StateAsyncStub", rms: Sequence[DemoRm]) -> None:
        """Nothing has been seen yet."""
        self._stub = stub
        self._rms = rms
        self._start = perf_counter()
        self.partitions: Sequence[Partition] = ()
        self.explanation: ExplainResponse | None = None

    @property
    def seconds(self) -> float:
        """For how long it has been looking."""
        return perf_counter() - self._start

    async def watch(self, board: Board, length: float) -> None:
        """Show how things are until the time is over; ask the question on the way."""
        while self.seconds < length:
            snapshot = await self.snapshot()
            if len(self.partitions) == len(self._rms):
                board.show(snapshot)
            if self.explanation is None and self.seconds >= EXPLAIN_AT * length:
                self.explanation = await self.blocked()
            await asyncio.sleep(PICTURE_SECONDS)
        board.show(await self.snapshot())

    async def blocked(self) -> ExplainResponse | None:
        """Why the application waits; None when it does not at this moment."""
        request = ExplainRequest(
            partition=f"[{EXPLAINED_RM}]default", application_id=WAITING_APPLICATION
        )
        try:
            answer = await self._stub.Explain(request)
        except grpc.aio.AioRpcError as error:
            if error.code() is grpc.StatusCode.NOT_FOUND:
                return None
            raise
        return answer if answer.verdict == "pending" else None

    async def snapshot(self) -> Snapshot:
        """How things are now, as the server and as the RMs see them."""
        listed = (await self._stub.ListPartitions(ListPartitionsRequest())).partitions
        order = [rm.world.rm_id for rm in self._rms]
        self.partitions = sorted(listed, key=lambda item: order.index(item.rm_id))
        queues = [
            (
                item.rm_id,
                (await self._stub.ListQueues(ListQueuesRequest(partition=item.name))).queues,
            )
            for item in self.partitions
        ]
        return Snapshot(seconds=self.seconds, queues=queues, totals=self._totals())

    def _totals(self) -> str:
        placed = sum(rm.tally.allocations for rm in self._rms)
        waiting = sum(rm.tally.asked for rm in self._rms) - placed
        finished = sum(rm.tally.finished for rm in self._rms)
        return f"{placed:,} placed, {finished:,} finished, {waiting:,} waiting"


def summary(rms: Sequence[DemoRm], spectator: Spectator, usage: Usage) -> list[str]:
    """The summary: what was submitted, what became of it, and how long it took, a line each."""
    work = [submission for rm in rms for submission in rm.world.submissions]
    users = {submission.application.user for submission in work}
    namespaces = {submission.application.tags["namespace"] for submission in work}
    placed = sum(rm.tally.allocations for rm in rms)
    prompt = sorted(tally_of(rms, PROMPT_RM).waits) or [0.0]
    facts = {
        "resource managers": ", ".join(rm.world.rm_id for rm in rms),
        "nodes": f"{sum(partition.nodes for partition in spectator.partitions):,}",
        "applications": f"{len(work):,} of {len(users)} users in {len(namespaces)} namespaces",
        "asks": f"{sum(rm.tally.asked for rm in rms):,}",
        "allocations": f"{placed:,}, {placed / spectator.seconds:,.0f} a second as they came"
        " (for the most there can be: licorne bench shim)",
        "gang": together(tally_of(rms, GANG_RM)),
        "preemption": taken_back(tally_of(rms, EXPLAINED_RM)),
        "latency": f"p50 {quantile(prompt, 0.5):.1f} ms, p99 {quantile(prompt, 0.99):.1f} ms"
        f" ({PROMPT_RM}: ask to allocation, room for all)",
        "server": f"{usage.cpu_seconds:.1f} s CPU, {human_bytes(usage.peak_rss)} memory at most",
    }
    width = max(map(len, facts))
    return [f"  {name:<{width}}  {value}" for name, value in facts.items()]


def tally_of(rms: Sequence[DemoRm], rm_id: str) -> Tally:
    """What came of the work of one RM."""
    return next(rm.tally for rm in rms if rm.world.rm_id == rm_id)


def together(tally: Tally) -> str:
    """How far the gang has come together."""
    return (
        f"{GANG}: {tally.placeholders[GANG]} placeholders came together,"
        f" {tally.placed[GANG]} allocations took their places"
    )


def taken_back(tally: Tally) -> str:
    """What was taken back of a guarantee that another queue had borrowed."""
    return (
        f"{OWNER_QUEUE} got {tally.placed[OWNER]} allocations that it is guaranteed:"
        f" {tally.preempted[BORROWER]} of {BORROWER_QUEUE} were stopped for them"
    )


def quantile(ordered: Sequence[float], share: float) -> float:
    """The value at a share of the way through, in milliseconds."""
    return ordered[ceil((len(ordered) - 1) * share)] * 1000
