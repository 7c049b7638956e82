"""The parts of a fake resource manager: received events, answers to checks, and containers."""

import asyncio
import heapq
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from itertools import count

from licorne import (
    Allocated,
    ApplicationAccepted,
    ApplicationRejected,
    ApplicationStateChanged,
    AskRejected,
    Client,
    Event,
    LicorneError,
    NodeAccepted,
    NodeRejected,
    PredicateCheck,
    PreemptionCheck,
    Rejected,
    Released,
    ReleaseRequested,
    Termination,
)
from licorne_server.process.clock import Clock, SystemClock
from licorne_server.testing.serving import VirtualClock


class Heard:
    """All received events, and the state that follows from them."""

    def __init__(self) -> None:
        """Start without events."""
        self.events: list[Event] = []
        self.allocations: dict[str, str] = {}
        """The node of each allocation, by key."""
        self.states: dict[str, str] = {}
        """The last state that was reported of every application."""
        self._answers: dict[tuple[str, str], str] = {}
        """By kind and name the refusal of a node or an application, empty when it was taken."""
        self._refused: deque[AskRejected] = deque()
        """Refusals of asks that no caller has seen."""

    def hear(self, event: Event) -> None:
        """Apply one more event."""
        self.events.append(event)
        match event:
            case NodeAccepted(node_id=node_id):
                self._answers["node", node_id] = ""
            case NodeRejected(node_id=node_id, reason=reason):
                self._answers["node", node_id] = reason
            case ApplicationAccepted(application_id=application_id):
                self._answers["application", application_id] = ""
            case ApplicationRejected(application_id=application_id, reason=reason):
                self._answers["application", application_id] = reason
            case ApplicationStateChanged(application_id=application_id, state=state):
                self.states[application_id] = state
            case Allocated(key=key, node_id=node_id):
                self.allocations[key] = node_id
            case Released(key=key):
                self.allocations.pop(key, None)
            case AskRejected():
                self._refused.append(event)
            case _:
                pass

    def forget_answer(self, kind: str, name: str) -> None:
        """Another answer about this is to come."""
        self._answers.pop((kind, name), None)

    def is_answered(self, kind: str, name: str) -> bool:
        """True if a node or an application was accepted. Raises Rejected if it was refused."""
        refusal = self._answers.get((kind, name))
        if refusal:
            raise Rejected(name, refusal)
        return refusal is not None

    def check_asks(self) -> None:
        """Raises Rejected for the oldest refusal of an ask that was not raised yet."""
        if self._refused:
            event = self._refused.popleft()
            raise Rejected(event.key, event.reason)


EXPLAINED = 30
"""Asks that the server is asked about."""
QUOTED = 3
"""Reasons quoted, at most."""
NAMED = 10
"""Asks that are named."""
PATIENCE = 2.0
"""Seconds for all answers of the server together."""


async def pending_asks(client: Client) -> str:
    """The asks of the client that wait, and why the first of them do: a line for each reason.

    Empty if none waits. It raises nothing: what cannot be found out is said instead.
    """
    waiting = [key for key, known in client.cache.asks.items() if not known.node_id]
    if not waiting:
        return ""
    names = ", ".join(waiting[:NAMED])
    more = f" and {len(waiting) - NAMED} more" if len(waiting) > NAMED else ""
    lines = [f"\n{len(waiting)} asks are pending: {names}{more}"]
    asked = waiting[:EXPLAINED]
    by_reason: dict[str, list[str]] = {}
    try:
        async with asyncio.timeout(PATIENCE):
            for key in asked:
                by_reason.setdefault(await _why(client, key), []).append(key)
    except TimeoutError:
        explained = sum(map(len, by_reason.values()))
        lines.append(f"  the server did not explain {len(asked) - explained} of them in time")
    # The most frequent first; of those that are as frequent the one that came first.
    reasons = sorted(by_reason, key=lambda reason: -len(by_reason[reason]))
    for reason in reasons[:QUOTED]:
        key, *others = by_reason[reason]
        lines.append(f"  {key}{f' and {len(others)} more' if others else ''}: {reason}")
    rest = sum(len(by_reason[reason]) for reason in reasons[QUOTED:])
    if rest:
        lines.append(f"  {rest} for {len(reasons) - QUOTED} other reasons")
    if len(waiting) > EXPLAINED:
        lines.append(f"  {len(waiting) - EXPLAINED} were not looked at")
    return "\n".join(lines)


async def _why(client: Client, key: str) -> str:
    try:
        answer = await client.explain(key)
    except LicorneError as error:
        return f"not explained, {type(error).__name__}: {error}"
    return f"{answer.verdict}: {answer.summary}"


PREDICATE_CLASS = "licorne/predicate-class"
Predicate = Callable[[str, str], str | None]
"""Returns the reason against a node for a class of asks, or None."""
Victims = Callable[[PreemptionCheck], Mapping[str, int]]
"""Returns the nodes that will do for a check, each with the position of its last victim."""


class Judge:
    """Answers checks with two functions, or refuses, delays or waits on request."""

    def __init__(
        self,
        predicate: Predicate | None,
        victims: Victims | None,
        changed: Callable[[], None],
        clock: Clock | None,
    ) -> None:
        """`changed` is called for every check that comes."""
        self.checks: list[PredicateCheck] = []
        """The predicate checks so far."""
        self.preemption_checks: list[PreemptionCheck] = []
        """The preemption checks so far."""
        self.answering = asyncio.Event()
        """Set; while it is cleared the checks wait for their answers."""
        self.answering.set()
        self.refusing = ""
        """The reason for which every node is refused; empty: the functions decide."""
        self.delay = 0.0
        """Seconds by the clock that every answer takes."""
        self._predicate = predicate
        self._victims = victims
        self._changed = changed
        self._clock = clock or SystemClock()

    async def predicates(self, check: PredicateCheck) -> dict[str, str]:
        """The nodes that are refused, each with the reason."""
        self.checks.append(check)
        await self._hesitate()
        if self.refusing:
            return dict.fromkeys(check.nodes, self.refusing)
        predicate = self._predicate
        assert predicate is not None, "nobody is asked without it"
        name = class_of(check)
        return {node: reason for node in check.nodes if (reason := predicate(name, node))}

    async def victims(self, check: PreemptionCheck) -> Mapping[str, int]:
        """The nodes that will do, each with the position of its last victim."""
        self.preemption_checks.append(check)
        await self._hesitate()
        if self.refusing:
            return {}
        assert self._victims is not None, "nobody is asked without it"
        return self._victims(check)

    async def _hesitate(self) -> None:
        self._changed()
        if self.delay:
            await _sleep(self._clock, self.delay)
        await self.answering.wait()


async def _sleep(clock: Clock, seconds: float) -> None:
    if isinstance(clock, VirtualClock):
        await clock.sleep(seconds)
    else:
        await clock.wait(clock.now() + seconds, asyncio.Event())


def class_of(check: PredicateCheck) -> str:
    """The predicate class of the ask that a check is about; empty for none."""
    if check.ask is None:
        return ""
    tags = check.ask.tags.items()
    tag = next((value for name, value in tags if name.lower() == PREDICATE_CLASS), "")
    return check.ask.predicate_class or tag


StartAfter = float | None | Callable[[Allocated], float | None]
StopAfter = float | None | Callable[[ReleaseRequested], float | None]
"""Seconds by the clock, for all or by the event; None for never."""

Confirm = Callable[[str, Termination], Awaitable[None]]


class Containers:
    """Starts allocated containers and stops those that the scheduler ends, each in its time."""

    def __init__(
        self,
        start_after: StartAfter,
        stop_after: StopAfter,
        confirm: Confirm,
        changed: Callable[[], None],
        clock: Clock | None,
    ) -> None:
        """`confirm` is awaited with what has stopped; `changed` is called after every change."""
        self.running: set[str] = set()
        """The keys of what has started and not stopped."""
        self.stopping: dict[str, Termination] = {}
        """The keys of running containers that the scheduler wants to end, each with the reason."""
        self._start_after = start_after
        self._stop_after = stop_after
        self._confirm = confirm
        self._changed = changed
        self._clock = clock or SystemClock()
        self._due: list[tuple[float, int, str, bool]] = []
        """Heap of actions: due time, a number that keeps the order, key, and True to stop it."""
        self._numbers = count()
        self._news = asyncio.Event()
        self._allocated: set[str] = set()

    def allocated(self, event: Allocated) -> None:
        """Start a container in its time."""
        self._allocated.add(event.key)
        after = self._start_after
        self._plan(after(event) if callable(after) else after, event.key, stop=False)

    def wanted(self, event: ReleaseRequested) -> None:
        """Stop it in its time. A request that comes again changes nothing but the reason."""
        is_new = event.key not in self.stopping
        self.stopping[event.key] = event.termination
        if is_new:
            after = self._stop_after
            self._plan(after(event) if callable(after) else after, event.key, stop=True)

    def gone(self, key: str) -> None:
        """Drop a container that has ended, for whatever reason."""
        self._allocated.discard(key)
        self.running.discard(key)
        self.stopping.pop(key, None)

    async def stop(self, key: str) -> None:
        """Stop now the containers that the scheduler wants to end, and confirm it."""
        wanted = self.stopping.get(key)
        if wanted is not None:
            self.gone(key)
            await self._confirm(key, wanted)

    async def run(self) -> None:
        """Start and stop due containers, until it is cancelled."""
        while True:
            self._news.clear()
            await self._clock.wait(self._due[0][0] if self._due else None, self._news)
            while self._due and self._due[0][0] <= self._clock.now():
                _, _, key, stop = heapq.heappop(self._due)
                if stop:
                    await self.stop(key)
                elif key in self._allocated:
                    self.running.add(key)
                self._changed()

    def _plan(self, after: float | None, key: str, *, stop: bool) -> None:
        if after is not None:
            due = self._clock.now() + after
            heapq.heappush(self._due, (due, next(self._numbers), key, stop))
            self._news.set()
