"""Draw the message sequences of pages, from runs of a server and a client.

    python docs/sequences.py            write the sequences into the pages
    python docs/sequences.py --check    compare only; exit 1 where they differ

A relay between client and server records every message. It holds back answers until the client has sent
all items of a step. So the same source gives the same sequence, at any speed.
"""

import argparse
import asyncio
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

import grpc

from licorne import AskDropped, PreemptionCheck, TaskGroup
from licorne.si.v1 import si_pb2 as si
from licorne.v1.session_pb2 import UpdateRequest, UpdateResponse
from licorne.v1.session_pb2_grpc import SessionServicer, SessionStub, add_SessionServicer_to_server
from licorne_server.telemetry.logs import set_up
from licorne_server.testing import FakeRM, Served, VirtualClock, serve

PAGES = [Path(__file__).with_name(name) for name in ("wire-gangs.md", "wire-preemption.md")]
QUEUES = """
partitions:
  - name: default
    queues:
      - name: root
        submitacl: "*"
        queues:
          - name: default
          - name: owner
            resources: {guaranteed: {vcore: 1}}
            properties: {preemption.delay: 60s}
"""
PATIENCE = 240.0
"""Seconds to wait for a message, enough for any machine."""
TIMEOUT = 60
"""Seconds that placeholders and asks wait, by a virtual clock."""

TO_CORE, TO_RM = "RM->>Core", "Core->>RM"


@dataclass(frozen=True, slots=True)
class Line:
    """One item of a message. Neighbours that differ only in the name are drawn as one line."""

    arrow: str
    before: str
    name: str
    after: str


def amounts(resource: si.Resource) -> str:
    """The amounts of a resource, on one line."""
    return ", ".join(f"{name} {q.value}" for name, q in sorted(resource.resources.items()))


def requested(request: UpdateRequest) -> Iterator[Line]:
    """The items of a request by the RM."""
    for new in request.applications.new:
        gang = f" (placeholderAsk {amounts(new.placeholderAsk)}, {new.gangSchedulingStyle})"
        yield Line(TO_CORE, "application ", new.applicationID, gang)
    for ask in request.allocations.allocations:
        facts = ["placeholder"] if ask.placeholder else []
        facts += [f"group {ask.taskGroupName}"] if ask.taskGroupName else []
        facts += ["allowPreemptOther"] if ask.preemptionPolicy.allowPreemptOther else []
        yield Line(TO_CORE, "ask ", ask.allocationKey, f" ({', '.join(facts)})")
    for gone in request.allocations.releases.allocationsToRelease:
        yield Line(TO_CORE, "release ", gone.allocationKey, f" ({termination(gone)})")
    for answer in request.preemption_answers.answers:
        for need in answer.nodes:
            yield Line(TO_CORE, "preemption answer ", need.node_id, f" (index {need.index})")


def answered(response: UpdateResponse) -> Iterator[Line]:
    """The items of a response by the server."""
    for accepted in response.applications.accepted:
        yield Line(TO_RM, "accepted ", accepted.applicationID, "")
    for updated in response.applications.updated:
        yield Line(TO_RM, "updated ", updated.applicationID, f" {updated.state}")
    for new in response.allocations.new:
        yield Line(TO_RM, "new ", new.allocationKey, f" on {new.nodeID}")
    for gone in response.allocations.released:
        yield Line(TO_RM, "released ", gone.allocationKey, f" ({termination(gone)})")
    for check in response.preemption_checks.checks:
        for node in check.nodes:
            victims = ", ".join(victim.allocation_key for victim in node.victims)
            where = f" ({node.node_id}, victims {victims}, start_index {node.start_index})"
            yield Line(TO_RM, "preemption check ", check.allocation_key, where)


def termination(release: si.AllocationRelease) -> str:
    """The name of a release's termination type in `si.v1`."""
    return si.TerminationType.Name(release.terminationType)


class Gate(SessionServicer):
    """Relay that forwards the messages of one session, and records them."""

    def __init__(self, upstream: str) -> None:
        """`upstream` is the address of the server."""
        self._channel = grpc.aio.insecure_channel(upstream)
        self.lines: list[Line | str] = []
        """The recorded items, and remarks between them."""
        self.requests = 0
        """Number of items that the RM has sent."""
        self.heard = asyncio.Event()
        """Set after every request of the RM."""
        self.open = asyncio.Event()
        """Set unless answers are held back."""
        self.open.set()

    async def Update(  # noqa: N802
        self, request_iterator: AsyncIterator[UpdateRequest], context: Any
    ) -> AsyncIterator[UpdateResponse]:
        """Relay one stream."""
        call = SessionStub(self._channel).Update()
        upward = asyncio.create_task(self._pass_up(request_iterator, call))
        try:
            async for response in call:
                await self.open.wait()
                self.lines += answered(response)
                yield response
        finally:
            upward.cancel()

    async def _pass_up(self, requests: AsyncIterator[UpdateRequest], call: Any) -> None:
        async for request in requests:
            found = list(requested(request))
            self.lines += found
            self.requests += len(found)
            await call.write(request)
            self.heard.set()
        await call.done_writing()

    async def close(self) -> None:
        """Close the connection to the server."""
        await self._channel.close()


class Run:
    """A resource manager whose messages are recorded, step by step."""

    def __init__(self, rm: FakeRM, gate: Gate, server: Served, clock: VirtualClock) -> None:
        """`rm` is connected through `gate`."""
        self.rm = rm
        self._views = server.views
        self.clock = clock
        self._gate = gate

    def forget(self) -> None:
        """Discard all recorded items, so that they are not drawn."""
        self._gate.lines.clear()

    def remark(self, text: str) -> None:
        """Add a remark behind the last message."""
        self._gate.lines.append(text)

    async def step(self, action: Awaitable[object], items: int, condition: Callable[[], bool]) -> None:
        """Await `items` items of the RM's action, then pass on answers until `condition` is true."""
        gate = self._gate
        gate.open.clear()
        wanted = gate.requests + items
        doing = asyncio.ensure_future(action)
        while gate.requests < wanted:
            gate.heard.clear()
            await gate.heard.wait()
        gate.open.set()
        await doing
        await self.rm.until(condition, "the answers to a step")

    async def pending(self, count: int) -> None:
        """Wait until the server has `count` pending asks."""
        # The core has no event for this, so it is polled.
        while self._views.partitions()[0].pending_asks != count:  # noqa: ASYNC110
            await asyncio.sleep(0)

    def dropped(self) -> int:
        """Number of asks that the server has dropped."""
        return sum(isinstance(event, AskDropped) for event in self.rm.events)

    def state(self, application_id: str) -> str:
        """The last reported state of an application; empty if there is none."""
        return self.rm.states.get(application_id, "")


def starts(check: PreemptionCheck) -> dict[str, int]:
    """Accept all nodes, with only the victims that the resources need."""
    return {node.node_id: node.start_index for node in check.nodes}


@asynccontextmanager
async def connected() -> AsyncIterator[tuple[Run, Gate]]:
    """A server, and an RM with one node that stops allocations only when told to."""
    clock = VirtualClock()
    async with serve(QUEUES, clock=clock) as server:
        gate = Gate(server.target)
        between = grpc.aio.server()
        add_SessionServicer_to_server(gate, between)
        port = between.add_insecure_port("127.0.0.1:0")
        await between.start()
        try:
            target = f"127.0.0.1:{port}"
            async with FakeRM(
                target,
                clock=clock,
                stop_after=None,
                resubmit=True,
                predicates=lambda _, node: None,
                judge_victims=starts,
                patience=PATIENCE,
            ) as rm:
                await rm.add_nodes(1, vcore=2000)
                yield Run(rm, gate, server, clock), gate
        finally:
            await between.stop(None)
            await gate.close()


async def replacement(run: Run) -> None:
    """Two placeholders, one of which a member replaces."""
    rm = run.rm
    groups = [TaskGroup(name="work", members=2, resources={"vcore": 1000})]
    submission = rm.submit("app", task_groups=groups, gang_style="Soft")
    await run.step(submission, 3, lambda: len(rm.allocations) == 2 and run.state("app") == "Running")
    run.remark("The room is there. The RM starts the first member.")
    first = "app-work-placeholder-1"
    ask = rm.ask("app", prefix="member", task_group="work", vcore=1000)
    await run.step(ask, 1, lambda: first in rm.containers.stopping)
    run.remark("The RM stops what it runs in the placeholder, if anything.")
    await run.step(rm.stopped([first]), 1, lambda: "member-1" in rm.allocations)


async def soft_timeout(run: Run) -> None:
    """A gang of which only one of two placeholders fits."""
    rm = run.rm
    groups = [
        TaskGroup(name="lead", members=1, resources={"vcore": 1500}),
        TaskGroup(name="work", members=1, resources={"vcore": 1500}),
    ]
    submission = rm.submit("app", task_groups=groups, gang_style="Soft", placeholder_timeout=TIMEOUT)
    await run.step(submission, 3, lambda: len(rm.allocations) == 1 and run.state("app") == "Accepted")
    lead = "app-lead-placeholder-1"
    ask = rm.ask("app", prefix="member", task_group="work", vcore=1500)
    await run.step(ask, 1, lambda: True)
    await run.pending(2)
    run.remark("The other placeholder finds no room, and the time is over.")
    await run.step(
        run.clock.advance(TIMEOUT), 0, lambda: run.dropped() == 2 and lead in rm.containers.stopping
    )
    await run.step(rm.stopped([lead]), 1, lambda: "member-1" in rm.allocations)


async def preemption(run: Run) -> None:
    """An ask whose guaranteed resources another queue uses."""
    rm = run.rm
    await rm.submit("guest")
    await rm.ask("guest", 2, vcore=1000, allow_preempt_self=True)
    await rm.allocated(2)
    await rm.submit("owner", queue="root.owner")
    run.forget()
    ask = rm.ask("owner", vcore=1000, allow_preempt_other=True)
    await run.step(ask, 1, lambda: run.state("owner") == "Accepted")
    run.remark("The ask has waited for as long as its queue says.")
    advance = run.clock.advance(TIMEOUT)
    await run.step(advance, 0, lambda: bool(rm.containers.stopping))
    run.remark("The RM stops the victim.")
    await run.step(rm.stopped(list(rm.containers.stopping)), 1, lambda: "owner-1" in rm.allocations)


RUNS: dict[str, Callable[[Run], Awaitable[None]]] = {
    "replacement": replacement,
    "soft timeout": soft_timeout,
    "preemption": preemption,
}


def drawn(lines: Sequence[Line | str]) -> str:
    """The sequence in the syntax of Mermaid."""
    text = ["sequenceDiagram", "    participant RM", "    participant Core as Licorne"]

    def kind(line: Line | str) -> object:
        return line if isinstance(line, str) else (line.arrow, line.before, line.after)

    for _, group in groupby(lines, kind):
        same = list(group)
        first = same[0]
        if isinstance(first, str):
            text.append(f"    Note over RM,Core: {first}")
        else:
            names = ", ".join(line.name for line in same if isinstance(line, Line))
            text.append(f"    {first.arrow}: {first.before}{names}{first.after}")
    return "\n".join(text)


async def sequence(name: str) -> str:
    """The sequence of the run with this name."""
    async with connected() as (run, gate):
        run.forget()
        await RUNS[name](run)
        # Copied now, because the messages of the goodbye are not drawn.
        noted = list(gate.lines)
    return drawn(noted)


async def page(text: str) -> str:
    """The page with new sequences."""
    for name in RUNS:
        mark = f"<!-- drawn by docs/sequences.py: {name} -->\n```mermaid\n"
        before, found, rest = text.partition(mark)
        if found:
            _, end, after = rest.partition("```")
            text = f"{before}{mark}{await sequence(name)}\n{end}{after}"
    return text


def main() -> None:
    """Write or compare the pages."""
    parser = argparse.ArgumentParser(description="Draw the message sequences of pages.")
    parser.add_argument("--check", action="store_true", help="compare only")
    options = parser.parse_args()
    set_up("warning")
    for path in PAGES:
        there = path.read_text(encoding="utf-8")
        found = asyncio.run(page(there))
        if not options.check:
            path.write_text(found, encoding="utf-8")
        elif found != there:
            sys.exit(f"{path.name} shows other sequences than a run has: run python docs/sequences.py")


if __name__ == "__main__":
    main()
