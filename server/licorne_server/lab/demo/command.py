"""`licorne demo`: a real server and three resource managers over loopback, on the terminal."""

import argparse
import asyncio
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from math import ceil
from pathlib import Path
from shutil import which
from time import perf_counter

import grpc

from licorne import LicorneError
from licorne.v1.state_pb2 import ExplainRequest, ExplainResponse
from licorne.v1.state_pb2_grpc import StateStub
from licorne_cli.connection.channel import NO_RM
from licorne_cli.nouns.explain import print_explanation
from licorne_cli.output.text import OutputError, human_bytes, is_terminal, print_sentence, say
from licorne_cli.screen.lines import MEASURE, Lines
from licorne_cli.screen.source import Source
from licorne_cli.screen.tree import Opened, Snapshot
from licorne_server.commands.server_process import ServerFailed, Usage, running_server
from licorne_server.lab.demo.planned import RACK_GANG, planned_worlds
from licorne_server.lab.demo.rm import DemoRm, Tally
from licorne_server.lab.demo.world import (
    BORROWER,
    BORROWER_QUEUE,
    GANG,
    OWNER,
    OWNER_QUEUE,
    WAITING_APPLICATION,
)

EXAMPLES = (
    ("licorne demo", "watch it"),
    ("licorne demo --seconds 25", "for as long as it can"),
)
LICORNE = "licorne"
OK = 0
FAILED = 2
INTERRUPTED = 130
DEFAULT_SECONDS = 15.0
LONGEST_SECONDS = 25.0
PICTURE_SECONDS = 0.25
ANSWER_SECONDS = 10.0
# When the explanation is requested, as a share of the demo.
EXPLAIN_AT = 0.45
# An RM whose asks always find room, so that their latency is that of the scheduler.
PROMPT_RM = "services"
EXPLAINED_RM = "batch"
GANG_RM = "research"
REST_PARTITIONS = "/ws/v1/partitions"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `licorne demo`."""
    parser.add_argument(
        "--seconds",
        type=seconds,
        default=DEFAULT_SECONDS,
        metavar="S",
        help=f"how long, up to {LONGEST_SECONDS:.0f} (%(default)s)",
    )


def seconds(text: str) -> float:
    """Length of the demo in seconds, within bounds."""
    value = float(text)
    if not 1.0 <= value <= LONGEST_SECONDS:
        raise argparse.ArgumentTypeError(f"{text} is not between 1 and {LONGEST_SECONDS:.0f}")
    return value


def run(args: argparse.Namespace) -> int:
    """Play the demo; returns 0, 2 if the server did not start or was lost, 130 if interrupted.

    A reader that closes the pipe on stdout ends the demo.

    Raises:
        OutputError: stdout cannot be written.
    """
    if sys.stdout is None:
        raise OutputError("stdout is closed")
    return played(args.seconds)


def played(length: float) -> int:
    """Play the demo, and report failures; returns the exit code.

    Raises:
        OSError: stdout cannot be written.
    """
    status = OK
    unwritten: OSError | None = None
    try:
        asyncio.run(play(length))
    except* ServerFailed as failures:
        say(f"licorne: {failures.exceptions[0]}")
        status = FAILED
    except* (grpc.RpcError, LicorneError) as failures:
        say(f"licorne: lost the server: {failures.exceptions[0]}")
        status = FAILED
    except* KeyboardInterrupt:
        say("stopped")
        status = INTERRUPTED
    except* OSError as failures:
        unwritten = next(each_of(failures))
    if unwritten is not None:
        raise unwritten
    return status


def each_of(group: BaseExceptionGroup[OSError]) -> Iterator[OSError]:
    """The errors in a group, and in the groups inside it."""
    for error in group.exceptions:
        if isinstance(error, BaseExceptionGroup):
            yield from each_of(error)
        else:
            yield error


async def play(length: float) -> None:
    """Start a server, play all RMs, and print the summary."""
    rms = [DemoRm(world, length) for world in planned_worlds()]
    names = ", ".join(rm.world.rm_id for rm in rms)
    say(f"for {length:.0f} s a real server schedules three fake resource managers: {names}")
    async with running_server(http="127.0.0.1:0") as server:
        say(f"server: grpc={server.target}, REST http://{server.http}{REST_PARTITIONS}")
        with grpc.insecure_channel(server.target) as channel:
            spectator = Spectator(StateStub(channel), rms, length)
            async with asyncio.TaskGroup() as group:
                players = [
                    group.create_task(rm.play(server.target, iter(rm.world.submissions))) for rm in rms
                ]
                try:
                    await spectator.watch()
                finally:
                    # Cancels a request that is still running, so that nothing waits for its answer.
                    channel.close()
                for player in players:
                    player.cancel()
        usage = server.usage()
    early = "" if spectator.is_over else f" of {length:.0f}: it was ended early"
    print(f"\nafter {spectator.seconds:.1f} s{early}")
    for fact in summary(rms, spectator, usage):
        print_sentence(fact)
    if spectator.explanation is not None:
        print(f"\nlicorne explain {WAITING_APPLICATION}, asked while the RMs were at work:\n")
        print_explanation(spectator.explanation)
    say(f"\nnext: {program()} dev serves the same until Ctrl-C, and prints the address of its page")


def program() -> str:
    """The command as the user can type it: `licorne`, or the path of one that the shell does not find."""
    typed = sys.argv[0]
    return typed if Path(typed).name == LICORNE and which(LICORNE) is None else LICORNE


class Spectator:
    """Reads snapshots from the State service while the RMs play."""

    def __init__(self, stub: StateStub, rms: Sequence[DemoRm], length: float) -> None:
        """Read from `stub` for `length` seconds."""
        self._stub = stub
        self._rms = rms
        self._length = length
        self._source = Source(stub, ANSWER_SECONDS)
        self._start = perf_counter()
        self._end: float | None = None
        self.nodes = 0
        self.explanation: ExplainResponse | None = None
        self.fullest: Counter[str] = Counter()
        """Highest usage of each cluster in all snapshots, in percent."""

    @property
    def seconds(self) -> float:
        """Seconds from the start to now, or to the end."""
        return (self._end or perf_counter()) - self._start

    @property
    def is_over(self) -> bool:
        """True once the length of the demo has passed."""
        return self.seconds >= self._length

    async def watch(self) -> None:
        """Show snapshots until the end of the demo, or until the viewer ends it."""
        # The server reports no event when all RMs have registered, so this polls.
        while not self.is_over and not await asyncio.to_thread(self._all_there):  # noqa: ASYNC110
            await asyncio.sleep(PICTURE_SECONDS)
        if is_terminal(sys.stdout):
            # Imported only here, because the import takes half a second.
            from licorne_cli.screen.app import Words, watch

            words = Words(title=self._title, status=lambda _: self._totals(), none=NO_RM.__add__)
            left = max(0.0, self._length - self.seconds)
            await watch(self.look, words, interval=PICTURE_SECONDS, seconds=left)
        else:
            await self._print_lines()
        self._end = perf_counter()

    def _all_there(self) -> bool:
        return len(self.look(None).clusters) == len(self._rms)

    async def _print_lines(self) -> None:
        """Print a line each second."""
        say("each second, how much of the cores of each cluster is allocated:")
        lines = Lines()
        while not self.is_over:
            lines.show(await asyncio.to_thread(self.look, None), self.seconds, self._totals())
            await asyncio.sleep(PICTURE_SECONDS)

    def look(self, opened: Opened | None) -> Snapshot:
        """The current snapshot, RMs in the order of the demo; requests the explanation when due. Blocks."""
        snapshot = self._source.look(opened)
        order = [rm.world.rm_id for rm in self._rms]
        clusters = sorted(snapshot.clusters, key=lambda item: order.index(item.partition.rm_id))
        named = [replace(cluster, name=cluster.partition.rm_id) for cluster in clusters]
        for cluster in named:
            used, capacity = (
                amounts.get(MEASURE, 0)
                for amounts in (cluster.partition.allocated, cluster.partition.capacity)
            )
            seen = 100 * used // capacity if capacity else 0
            self.fullest[cluster.name] = max(seen, self.fullest[cluster.name])
        self.nodes = sum(cluster.partition.nodes for cluster in named)
        if self.explanation is None and self.seconds >= EXPLAIN_AT * self._length:
            self.explanation = self._blocked()
        return replace(snapshot, clusters=named)

    def _blocked(self) -> ExplainResponse | None:
        """Explanation of the application that is meant to wait; None if it does not wait now."""
        request = ExplainRequest(partition=f"[{EXPLAINED_RM}]default", application_id=WAITING_APPLICATION)
        try:
            answer = self._stub.Explain(request, timeout=ANSWER_SECONDS)
        except grpc.RpcError as error:
            if error.code() is grpc.StatusCode.NOT_FOUND:
                return None
            raise
        return answer if answer.verdict == "pending" else None

    def _title(self) -> str:
        return f"licorne demo, {self.seconds:.0f} of {self._length:.0f} s: a real server, three fake RMs"

    def _totals(self) -> str:
        placed = sum(rm.tally.allocations for rm in self._rms)
        waiting = sum(rm.tally.asked for rm in self._rms) - placed
        finished = sum(rm.tally.finished for rm in self._rms)
        return f"{placed:,} placed, {finished:,} finished, {waiting:,} waiting"


def summary(rms: Sequence[DemoRm], spectator: Spectator, usage: Usage) -> list[str]:
    """Lines of the summary: submitted applications, results, and durations."""
    work = [item for rm in rms for item in rm.world.submissions[: rm.tally.submitted]]
    users = {submission.application.user for submission in work}
    namespaces = {submission.application.tags["namespace"] for submission in work}
    asked = sum(rm.tally.asked for rm in rms)
    placed = sum(rm.tally.allocations for rm in rms)
    finished = sum(rm.tally.finished for rm in rms)
    full = (f"{rm.world.rm_id} {spectator.fullest[rm.world.rm_id]}%" for rm in rms)
    facts = {
        "resource managers": ", ".join(rm.world.rm_id for rm in rms),
        "nodes": f"{spectator.nodes:,}",
        "cores in use": f"at most {', '.join(full)}",
        "applications": f"{len(work):,} of {len(users)} users in {len(namespaces)} namespaces",
        "asks": f"{asked:,}, of which {asked - placed:,} wait at the end",
        "allocations": f"{placed:,}, of which {finished:,} have finished;"
        f" {placed / spectator.seconds:,.0f} a second as they came"
        " (for the most there can be: licorne bench shim)",
        "gang": together(tally_of(rms, GANG_RM)),
        "in one rack": together(tally_of(rms, GANG_RM), RACK_GANG),
        "preemption": taken_back(tally_of(rms, EXPLAINED_RM)),
        "latency": latency(tally_of(rms, PROMPT_RM)),
        "server": f"{usage.cpu_seconds:.1f} s CPU, {human_bytes(usage.peak_rss)} memory at most",
    }
    width = max(map(len, facts))
    return [f"  {name:<{width}}  {value}" for name, value in facts.items()]


def tally_of(rms: Sequence[DemoRm], rm_id: str) -> Tally:
    """The counts of one RM."""
    return next(rm.tally for rm in rms if rm.world.rm_id == rm_id)


def together(tally: Tally, gang: str = GANG) -> str:
    """The progress of a gang."""
    return (
        f"{gang}: {tally.placeholders[gang]} placeholders came together,"
        f" {tally.placed[gang]} allocations took their places"
    )


def taken_back(tally: Tally) -> str:
    """The share of a guarantee that preemption has reclaimed from the borrower."""
    return (
        f"{OWNER_QUEUE} got {tally.placed[OWNER]} allocations that it is guaranteed:"
        f" {tally.preempted[BORROWER]} of {BORROWER_QUEUE} were stopped for them"
    )


def latency(tally: Tally) -> str:
    """The latency of the RM whose asks always find room."""
    if not tally.waits:
        return "nothing was placed yet"
    waits = sorted(tally.waits)
    return (
        f"p50 {quantile(waits, 0.5):.1f} ms, p99 {quantile(waits, 0.99):.1f} ms"
        f" ({PROMPT_RM}: ask to allocation, room for all)"
    )


def quantile(ordered: Sequence[float], share: float) -> float:
    """A quantile of ordered seconds, in milliseconds."""
    return ordered[ceil((len(ordered) - 1) * share)] * 1000
