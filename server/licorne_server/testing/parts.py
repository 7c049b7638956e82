"""Parts of a fake resource manager: received events, answers to checks, and containers."""

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
from licorne_server.process.clock import Clock
from licorne_server.testing.serving import Progress, VirtualClock


class Received:
    """All received events, and the state that results from them."""

    def __init__(self) -> None:
        """Start without events."""
        self.events: list[Event] = []
        self.allocations: dict[str, str] = {}
        """Node of each allocation, by the allocation's key."""
        self.states: dict[str, str] = {}
        """Last reported state of each application."""
        self._answers: dict[tuple[str, str], str] = {}
        """Refusals of nodes and applications, by kind and name; empty texts for accepted ones."""
        self._refused: deque[AskRejected] = deque()
        """Refusals of asks that have not been raised yet."""

    def take(self, event: Event) -> None:
        """Apply an event."""
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
        """Drop an answer, before the request is sent again."""
        self._answers.pop((kind, name), None)

    def is_answered(self, kind: str, name: str) -> bool:
        """True if a node or an application was accepted. Raises Rejected for a refusal."""
        refusal = self._answers.get((kind, name))
        if refusal:
            raise Rejected(name, refusal)
        return refusal is not None

    def check_asks(self) -> None:
        """Raise Rejected for the oldest refusal of an ask that has not been raised yet."""
        if self._refused:
            event = self._refused.popleft()
            raise Rejected(event.key, event.reason)


EXPLAINED = 30
"""Maximum number of asks for which explanations are requested."""
QUOTED = 3
"""Maximum number of quoted reasons."""
NAMED = 10
"""Maximum number of named asks."""
PATIENCE = 2.0
"""Seconds within which all answers of the server must arrive."""


async def pending_asks(client: Client) -> str:
    """A report of the client's pending asks, with a line for each reason.

    The server gives the reasons of the first `EXPLAINED` asks. Raises nothing: failures are in the report.
    """
    waiting = [key for key, known in client.cache.asks.items() if not known.node_id]
    if not waiting:
        return ""
    names = ", ".join(waiting[:NAMED])
    more = f" and {len(waiting) - NAMED} more" if len(waiting) > NAMED else ""
    are = "ask is" if len(waiting) == 1 else "asks are"
    lines = [f"\n{len(waiting)} {are} pending: {names}{more}"]
    asked = waiting[:EXPLAINED]
    by_reason: dict[str, list[str]] = {}
    try:
        async with asyncio.timeout(PATIENCE):
            for key in asked:
                by_reason.setdefault(await _why(client, key), []).append(key)
    except TimeoutError:
        explained = sum(map(len, by_reason.values()))
        lines.append(f"  the server did not explain {len(asked) - explained} of them in time")
    # The most frequent reason is first; equally frequent reasons are in order of appearance.
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
    found = next((check.message for check in answer.checks if check.kind == "preemption"), "")
    preemption = f"; preemption: {found}" if found not in ("", answer.summary) else ""
    return f"{answer.verdict}: {answer.summary}{preemption}"


class WatchedClient(Client):
    """A client that reports the progress of its session, for an RM in the process of its server."""

    def is_settled(self, server: Progress, *, reads: bool, held: int) -> bool:
        """True if neither side has work for the other, except work that the RM withholds.

        The RM withholds the answers to `held` checks, and processes responses only if it `reads`.
        """
        context, session = self._context, self._context.session
        return (
            context.live.is_set()
            and session.stamp == server.stamp
            and context.outgoing.is_empty
            and session.sent == server.processed
            and (not reads or (session.dealt_with == server.sent and context.inbox.is_empty))
            and context.callbacks.running <= held
        )


PREDICATE_CLASS = "licorne/predicate-class"
Predicate = Callable[[str, str], str | None]
"""Returns the reason why a node does not fit a class of asks; None if it fits."""
Victims = Callable[[PreemptionCheck], Mapping[str, int]]
"""Returns the suitable nodes of a check, each with the position of its last victim."""


class Judge:
    """Answers checks with two functions; on request it refuses nodes, or delays or withholds answers."""

    def __init__(
        self,
        predicate: Predicate | None,
        victims: Victims | None,
        changed: Callable[[], None],
        clock: Clock,
    ) -> None:
        """`changed` is called for every received check."""
        self.checks: list[PredicateCheck] = []
        """Predicate checks so far."""
        self.preemption_checks: list[PreemptionCheck] = []
        """Preemption checks so far."""
        self.answering = asyncio.Event()
        """Set by default; no check is answered while it is cleared."""
        self.answering.set()
        self.refusing = ""
        """Reason with which every node is refused; empty to let the functions decide."""
        self.delay = 0.0
        """Delay of each answer, in seconds of the clock."""
        self._predicate = predicate
        self._victims = victims
        self._changed = changed
        self._clock = clock
        self._delayed = 0
        self._waiting = 0

    async def predicates(self, check: PredicateCheck) -> dict[str, str]:
        """The refused nodes, each with the reason."""
        self.checks.append(check)
        await self._delay_answer()
        if self.refusing:
            return dict.fromkeys(check.nodes, self.refusing)
        predicate = self._predicate
        assert predicate is not None, "nobody is asked without it"
        name = class_of(check)
        return {node: reason for node in check.nodes if (reason := predicate(name, node))}

    async def victims(self, check: PreemptionCheck) -> Mapping[str, int]:
        """The suitable nodes, each with the position of its last victim."""
        self.preemption_checks.append(check)
        await self._delay_answer()
        if self.refusing:
            return {}
        assert self._victims is not None, "nobody is asked without it"
        return self._victims(check)

    @property
    def held(self) -> int:
        """Number of checks whose answers wait for the clock or for `answering`."""
        return self._delayed + (0 if self.answering.is_set() else self._waiting)

    async def _delay_answer(self) -> None:
        self._changed()
        if self.delay:
            self._delayed += 1
            try:
                await _sleep(self._clock, self.delay)
            finally:
                self._delayed -= 1
        self._waiting += 1
        try:
            await self.answering.wait()
        finally:
            self._waiting -= 1


async def _sleep(clock: Clock, seconds: float) -> None:
    if isinstance(clock, VirtualClock):
        await clock.sleep(seconds)
    else:
        await clock.wait(clock.now() + seconds, asyncio.Event())


def class_of(check: PredicateCheck) -> str:
    """Predicate class of the ask of a check; empty if it has none."""
    if check.ask is None:
        return ""
    tags = check.ask.tags.items()
    tag = next((value for name, value in tags if name.lower() == PREDICATE_CLASS), "")
    return check.ask.predicate_class or tag


StartAfter = float | None | Callable[[Allocated], float | None]
StopAfter = float | None | Callable[[ReleaseRequested], float | None]
"""Seconds of the clock, as a constant or a function of the event; None for never."""

Confirm = Callable[[str, Termination], Awaitable[None]]


class Containers:
    """Starts the containers of allocations, and stops them at the scheduler's request, after delays."""

    def __init__(
        self,
        start_after: StartAfter,
        stop_after: StopAfter,
        confirm: Confirm,
        changed: Callable[[], None],
        clock: Clock,
    ) -> None:
        """`confirm` is awaited with stopped containers; `changed` is called after every change."""
        self.running: set[str] = set()
        """Keys of containers that have started and have not stopped."""
        self.stopping: dict[str, Termination] = {}
        """Keys of running containers that the scheduler wants to stop, each with the reason."""
        self._start_after = start_after
        self._stop_after = stop_after
        self._confirm = confirm
        self._changed = changed
        self._clock = clock
        self._acting = False
        self._due: list[tuple[float, int, str, bool]] = []
        """Heap of actions: due time, serial number, key, and True to stop the container."""
        self._numbers = count()
        self._news = asyncio.Event()
        self._allocated: set[str] = set()

    @property
    def is_idle(self) -> bool:
        """True if no container has to start or to stop at this time."""
        return not self._acting and not (self._due and self._due[0][0] <= self._clock.now())

    def allocated(self, event: Allocated) -> None:
        """Schedule the start of a container."""
        self._allocated.add(event.key)
        after = self._start_after
        self._plan(after(event) if callable(after) else after, event.key, stop=False)

    def wanted(self, event: ReleaseRequested) -> None:
        """Schedule the stop of a container. A repeated request only changes the reason."""
        is_new = event.key not in self.stopping
        self.stopping[event.key] = event.termination
        if is_new:
            after = self._stop_after
            self._plan(after(event) if callable(after) else after, event.key, stop=True)

    def gone(self, key: str) -> None:
        """Drop a container that has ended for any reason."""
        self._allocated.discard(key)
        self.running.discard(key)
        self.stopping.pop(key, None)

    async def stop(self, key: str) -> None:
        """Stop a container immediately if the scheduler has requested it, and confirm its end."""
        wanted = self.stopping.get(key)
        if wanted is not None:
            self.gone(key)
            await self._confirm(key, wanted)

    async def run(self) -> None:
        """Start and stop due containers, until cancelled."""
        while True:
            self._news.clear()
            await self._clock.wait(self._due[0][0] if self._due else None, self._news)
            while self._due and self._due[0][0] <= self._clock.now():
                self._acting = True
                _, _, key, stop = heapq.heappop(self._due)
                if stop:
                    await self.stop(key)
                elif key in self._allocated:
                    self.running.add(key)
                self._changed()
            self._acting = False

    def _plan(self, after: float | None, key: str, *, stop: bool) -> None:
        if after is not None:
            due = self._clock.now() + after
            heapq.heappush(self._due, (due, next(self._numbers), key, stop))
            self._news.set()
