"""Possible states of the server's objects, derived from the messages alone.

The RM cannot know which messages the server has processed, so a track has every possible *world*: a state,
and the number of sent items that are processed. An answer excludes the worlds that it contradicts; an answer
that excludes all is a violation. Once all messages are processed and received, one state is left, and the
server's records must equal it.

This module has the tracks of nodes and applications, and the states and answers of all objects.

The states of a key are those of reliability § 3.3: asked, allocated, to be released, freed or rejected. A key
that is asked and neither freed nor rejected is `Held`, and pending without a node.
"""

from abc import abstractmethod
from collections.abc import Iterable, Iterator
from itertools import permutations
from typing import Generic, NamedTuple, Protocol, TypeVar

from support.wire.items import BAD_PARTITIONS, Amounts, AppItem, NodeItem, RemovalItem, amounts, home

S = TypeVar("S")
"""A state; None if the object does not exist."""
T = TypeVar("T")
"""A sent item."""
A = TypeVar("A")
"""An answer."""


class Violation(AssertionError):
    """An answer or a record of the server is impossible."""


class Said(NamedTuple, Generic[T]):
    """A sent item; `doubtful` if it was in flight when its stream broke."""

    item: T
    doubtful: bool


class Track(Generic[S, T, A]):
    """The worlds of one node, application or key."""

    def __init__(self, name: str, start: S) -> None:
        """Start in a certain state."""
        self.name = name
        self.start = start
        self.said: list[Said[T]] = []
        self.heard: list[A] = []
        self._worlds: dict[tuple[S, int], None] = {(start, 0): None}

    @abstractmethod
    def after(self, state: S, item: T | None, answer: A | None) -> Iterable[S]:
        """The states after an item was processed and an answer was given.

        Without an item the server acts by itself; without an answer the server sends none.
        """

    @abstractmethod
    def taken(self, state: S, item: T) -> S:
        """The state after an accepted item, whatever its answer."""

    def say(self, item: T) -> None:
        """Record a sent item."""
        self.said.append(Said(item, doubtful=False))

    def doubt(self, item: T) -> None:
        """Note that the last of these items may never have arrived."""
        for position in range(len(self.said) - 1, -1, -1):
            if self.said[position] == (item, False):
                self.said[position] = Said(item, doubtful=True)
                return

    def hear(self, *answers: A) -> None:
        """Check answers whose order is unknown."""
        reached: dict[tuple[S, int], None] = {}
        for order in permutations(answers):
            worlds: Iterable[tuple[S, int]] = self._worlds
            for answer in order:
                worlds = self._answered(worlds, answer)
            reached |= dict.fromkeys(worlds)
        if not reached:
            told = " and ".join(map(repr, answers))
            raise Violation(f"{self.name}: {told} must not be\n{self.story()}")
        self.heard += answers
        self._worlds = reached

    def _answered(self, worlds: Iterable[tuple[S, int]], answer: A) -> list[tuple[S, int]]:
        return [
            world for state, dealt in self._silently(worlds) for world in self._steps(state, dealt, answer)
        ]

    def _silently(self, worlds: Iterable[tuple[S, int]]) -> dict[tuple[S, int], None]:
        """The worlds, with all that can follow from them without an answer."""
        known = dict.fromkeys(worlds)
        waiting = list(known)
        while waiting:
            for world in self._steps(*waiting.pop(), None):
                if world not in known:
                    known[world] = None
                    waiting.append(world)
        return known

    def _steps(self, state: S, dealt: int, answer: A | None) -> Iterator[tuple[S, int]]:
        for after in self.after(state, None, answer):
            yield after, dealt
        if dealt < len(self.said):
            item, doubtful = self.said[dealt]
            for after in self.after(state, item, answer):
                yield after, dealt + 1
            if doubtful and answer is None:
                yield state, dealt + 1

    def possible(self) -> dict[S, None]:
        """All states that the object may have been in since the last certain state."""
        states = {self.start: None}
        for item, _ in self.said:
            states |= dict.fromkeys([self.taken(state, item) for state in states])
        return states

    def may_stand(self) -> bool:
        """True if the object may exist by the answers so far."""
        return any(state is not None for state, _ in self._silently(self._worlds))

    def guess(self) -> S:
        """The belief of an RM: a world in which as much as possible was processed."""
        worlds = self._silently(self._worlds)
        return max(worlds, key=lambda world: world[1])[0]

    def settle(self, booked: S) -> None:
        """Check that the server's record is possible now that all messages were processed and received."""
        worlds = self._silently(self._worlds)
        ends = {state for state, dealt in worlds if dealt == len(self.said)}
        if not ends:
            raise Violation(f"{self.name}: an answer is missing\n{self.story()}")
        if booked not in ends:
            raise Violation(f"{self.name}: the books have {booked}\n{self.story()}")
        self.restart(booked)

    def restart(self, state: S) -> None:
        """Start again in a certain state."""
        self.start = state
        self.said.clear()
        self.heard.clear()
        self._worlds = {(state, 0): None}

    @property
    def is_certain(self) -> bool:
        """True if there were no messages since the last certain state."""
        return not self.said and not self.heard

    def story(self) -> str:
        """The state of the track, for the text of a failure."""
        said = [f"{item!r}{' (may be lost)' if doubtful else ''}" for item, doubtful in self.said]
        ends = sorted({f"{state} after {dealt}" for state, dealt in self._silently(self._worlds)})
        return f"  was {self.start}\n  said {said}\n  heard {self.heard}\n  may be {ends}"


# ---- Answers ----


class Accepted(NamedTuple):
    """A node or an application was accepted."""


class Rejected(NamedTuple):
    """An item was rejected."""

    reason: str


class Updated(NamedTuple):
    """An application entered a state."""

    state: str


class New(NamedTuple):
    """A key was placed on a node."""

    node_id: str
    size: Amounts
    priority: int
    placeholder: bool


class Released(NamedTuple):
    """An allocation was released."""

    message: str


class TimedOut(NamedTuple):
    """A placeholder has to end, or a pending ask of an incomplete gang was dropped."""

    message: str


class Preempted(NamedTuple):
    """A victim has to end for an ask that requires its node."""

    message: str


class Asked(NamedTuple):
    """The RM is asked whether an ask may be placed on these nodes."""

    node_ids: tuple[str, ...]


KeyAnswer = New | Released | TimedOut | Preempted | Rejected | Asked

# ---- States ----


class Standing(NamedTuple):
    """An existing node."""

    schedulable: bool
    size: Amounts


class Held(NamedTuple):
    """A key that is pending, or allocated on a node."""

    node_id: str
    size: Amounts
    priority: int
    required: str
    placeholder: bool


class Occupied(NamedTuple):
    """An existing foreign allocation."""

    node_id: str
    size: Amounts


class Surroundings(Protocol):
    """What a track needs to know about other objects."""

    huge: bool
    """True if the sum of sent amounts may overflow."""

    def may_decide(self) -> bool:
        """True if asks may have been scheduled at all since the last certain state."""

    def partition_may_be(self, partition: str, *, there: bool) -> bool:
        """True if the partition may have existed, or not, since the last certain state."""

    def app_may_be(self, app_id: str, *, there: bool) -> bool:
        """True if the application may have existed, or not, since the last certain state."""

    def has_agreed(self, app_id: str, key: str, node_id: str) -> bool:
        """True if a key may have been placed on the node; with predicates, only with the RM's consent."""

    def node_may_be(self, node_id: str, *, there: bool) -> bool:
        """True if the node may have existed, or not, since the last certain state."""

    def may_be_cleared(self, node_id: str) -> bool:
        """True if allocations on the node may have been requested to stop."""

    def open_nodes(self) -> frozenset[str]:
        """The nodes that may have been open since the last certain state."""


class NodeTrack(Track[Standing | None, NodeItem, Accepted | Rejected]):
    """One node."""

    def __init__(self, node_id: str, around: Surroundings) -> None:
        """Start without the node."""
        super().__init__(f"node {node_id}", None)
        self.node_id = node_id
        self._around = around

    def after(
        self,
        state: Standing | None,
        item: NodeItem | None,
        answer: Accepted | Rejected | None,
    ) -> Iterable[Standing | None]:
        """Only items that add a node are answered, and invalid items."""
        partition = home(self.node_id)
        if item is None:
            gone = self._around.partition_may_be(partition, there=False)
            return [None] if answer is None and gone else []
        if not item.is_answered:
            return [] if answer is not None else [self.taken(state, item)]
        match answer:
            case Accepted() if not item.fault and state is None:
                there = self._around.partition_may_be(partition, there=True)
                return [self.taken(state, item)] if there else []
            case Rejected(reason) if self._plausible(reason, state, item):
                return [state]
        return []

    def taken(self, state: Standing | None, item: NodeItem) -> Standing | None:
        """The state of the node after an item."""
        if item.fault or (state is None) is not item.creates:
            return state
        match item.action:
            case "CREATE" | "CREATE_DRAIN":
                return Standing(item.action == "CREATE", amounts(dict(item.size or ())))
            case "DECOMISSION":
                return None
        assert state is not None
        match item.action:
            case "DRAIN_NODE":
                return state._replace(schedulable=False)
            case "DRAIN_TO_SCHEDULABLE":
                return state._replace(schedulable=True)
            case _ if item.size is not None:
                return state._replace(size=item.size)
        return state

    def _plausible(self, reason: str, state: Standing | None, item: NodeItem) -> bool:
        if item.fault and item.fault in reason:
            return True
        if "failed to find partition" in reason:
            return self._around.partition_may_be(home(self.node_id), there=False)
        return state is not None and "has an existing node" in reason


_NEXT = {
    "New": {"Accepted", "Failing"},
    "Accepted": {"Running", "Completing", "Failing", "Resuming"},
    "Resuming": {"Accepted"},
    "Running": {"Completing", "Failing"},
    "Completing": {"Running", "Completed"},
    "Failing": {"Failed"},
}
_ENDS = {"Completed", "Failed"}
_PLACEMENT = (
    "failed to place application",
    "failed to find queue",
    "failed to create rule based queue",
)


class AppTrack(Track[str | None, AppItem | RemovalItem, Accepted | Rejected | Updated]):
    """One application; its state is the last reported one."""

    def __init__(self, app_id: str, around: Surroundings) -> None:
        """Start without the application."""
        super().__init__(f"application {app_id}", None)
        self.app_id = app_id
        self._around = around

    def after(
        self,
        state: str | None,
        item: AppItem | RemovalItem | None,
        answer: Accepted | Rejected | Updated | None,
    ) -> Iterable[str | None]:
        """Additions are answered, removals are not, and states follow on one another."""
        match item, answer:
            case None, Updated(to) if state is not None and to in _NEXT.get(state, ()):
                return [None if to in _ENDS else to]
            case RemovalItem(), None:
                return [self.taken(state, item)]
            case AppItem(), Accepted() if state is None and not item.fault:
                there = self._around.partition_may_be(home(self.app_id), there=True)
                return [self.taken(state, item)] if there else []
            case AppItem(), Rejected(reason) if self._plausible(reason, state, item):
                return [state]
        return []

    def taken(self, state: str | None, item: AppItem | RemovalItem) -> str | None:
        """The state of the application after an item."""
        if isinstance(item, RemovalItem):
            return state if item.partition in BAD_PARTITIONS else None
        return "New" if state is None and not item.fault else state

    def _plausible(self, reason: str, state: str | None, item: AppItem) -> bool:
        if item.fault and item.fault in reason:
            return True
        if "already existed" in reason:
            return state is not None and item.app_id != ""
        if reason.startswith(("Failed to add application", "partition ")):
            return self._around.partition_may_be(home(self.app_id), there=False)
        if item.forced or state is not None:
            return False
        if item.gang and reason.startswith("queue "):
            fair = item.queue == "root.b" and reason.endswith("unsupported sort type")
            return fair or "larger than max queue allocation" in reason
        return reason.startswith(_PLACEMENT)
