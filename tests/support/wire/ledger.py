"""The RM's ledger: all its nodes, applications and keys, and the possible states of each.

The state around a key, of nodes, applications and partitions, decides how an answer is judged.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any, TypeVar

from licorne.si.v1 import si_pb2 as si
from licorne.v1 import session_pb2 as session
from support.wire.books import Books
from support.wire.items import AppItem, AskItem, NodeItem, ReleaseItem, RemovalItem, amounts, home
from support.wire.keys import ForeignTrack, KeyTrack
from support.wire.tracks import (
    Accepted,
    AppTrack,
    Asked,
    Held,
    New,
    NodeTrack,
    Preempted,
    Rejected,
    Released,
    TimedOut,
    Track,
    Updated,
    Violation,
)


class Around:
    """The possible states since the last certain one; see the protocol `Surroundings`.

    `deaf`: answers about applications cannot be received at present. `agreed`: application, key and node of
    placements that the RM accepted, None without predicates. `required`: the nodes that sent asks require.
    """

    def __init__(self) -> None:
        """Start empty."""
        self.nodes: dict[str, NodeTrack] = {}
        self.apps: dict[str, AppTrack] = {}
        self.partitions: frozenset[str] = frozenset()
        self.huge = False
        self.required: set[str] = set()
        self.deaf = False
        self.agreed: dict[tuple[str, str, str], None] | None = None
        self._held = False
        # Since the last certain state:
        self._was_free = False
        self._ended: set[str] = set()
        self._partitions_once: frozenset[str] = frozenset()
        self._partitions_always: frozenset[str] = frozenset()

    def node(self, node_id: str) -> NodeTrack:
        """The track of a node."""
        return self.nodes.get(node_id) or self.nodes.setdefault(node_id, NodeTrack(node_id, self))

    def app(self, app_id: str) -> AppTrack:
        """The track of an application."""
        return self.apps.get(app_id) or self.apps.setdefault(app_id, AppTrack(app_id, self))

    # ---- Changes other than those of nodes and applications ----

    def hold(self, *, on: bool) -> None:
        """Begin or end a pause of scheduling."""
        self._held = on
        self._was_free = self._was_free or not on

    def configured(self, partitions: frozenset[str]) -> None:
        """Set the present partitions."""
        self.partitions = partitions
        self._partitions_once |= partitions
        self._partitions_always &= partitions

    def registered(self, partitions: frozenset[str], *, held: bool) -> None:
        """Reset to these partitions, without nodes and applications."""
        for node in self.nodes.values():
            node.restart(None)
        for app in self.apps.values():
            app.restart(None)
        self.partitions = partitions
        self._held = held
        self.huge = False
        self.required.clear()
        self.agreed = None
        self.certain()

    def answered(self, check: session.PredicateCheck, refused: Collection[str]) -> None:
        """Record that the RM accepts the nodes of a check but the `refused` ones, or does not answer."""
        if self.agreed is None or not check.allocate:
            return
        for node_id in check.node_ids:
            place = (check.application_id, check.allocation_key, node_id)
            self.agreed[place] = None
            if node_id in refused:
                del self.agreed[place]

    def end(self, app_id: str) -> None:
        """Record a reported end of an application."""
        self._ended.add(app_id)

    def certain(self) -> None:
        """Make the present state the certain one."""
        self._was_free = not self._held
        self._ended.clear()
        self._partitions_once = self._partitions_always = self.partitions

    # ---- Surroundings ----

    def has_agreed(self, app_id: str, key: str, node_id: str) -> bool:
        """True if the key may be placed there: with predicates only after the RM's consent."""
        if self.agreed is None:
            return self._was_free
        return (app_id, key, node_id) in self.agreed

    def may_decide(self) -> bool:
        """True if asks may have been scheduled; during a replay none are."""
        return self._was_free

    def partition_may_be(self, partition: str, *, there: bool) -> bool:
        """True if the partition may have existed, or not; configurations add and remove partitions."""
        if there:
            return partition in self._partitions_once
        return partition not in self._partitions_always

    def app_may_be(self, app_id: str, *, there: bool) -> bool:
        """True if the application may have existed, or not; its end is only certain once it was reported."""
        track = self.apps.get(app_id)
        if track is None:
            return not there
        if there:
            return any(state is not None for state in track.possible())
        if app_id in self._ended or self.deaf:
            return True
        gone = self.partition_may_be(home(app_id), there=False)
        return gone or None in track.possible()

    def node_may_be(self, node_id: str, *, there: bool) -> bool:
        """True if the node may have existed, or not; it is removed on request or with its partition."""
        track = self.nodes.get(node_id)
        if track is None:
            return not there
        if there:
            return any(state is not None for state in track.possible())
        gone = self.partition_may_be(home(node_id), there=False)
        return gone or None in track.possible()

    def may_be_cleared(self, node_id: str) -> bool:
        """True if victims there may have been stopped: only for an ask that requires the node."""
        return node_id in self.required and self._was_free

    def open_nodes(self) -> frozenset[str]:
        """The nodes that may have existed undrained."""
        return frozenset(
            node_id
            for node_id, track in self.nodes.items()
            if any(state is not None and state.schedulable for state in track.possible())
        )


Item = NodeItem | AppItem | RemovalItem | AskItem | ReleaseItem
K = TypeVar("K")
V = TypeVar("V")
_END: Mapping[int, type[Released | TimedOut | Preempted]] = {
    si.STOPPED_BY_RM: Released,
    si.TIMEOUT: TimedOut,
    si.PREEMPTED_BY_SCHEDULER: Preempted,
}
"""No ask of these worlds has the task group of a placeholder, so no placeholder is replaced."""
_Answers = dict[str, list[Accepted | Rejected]]


class Ledger:
    """The messages since the last certain state, and that state.

    `ordered`: answers of all kinds are in the order of the decisions, as in a session.
    """

    def __init__(self, rm_id: str) -> None:
        """An unregistered RM without messages."""
        self.rm_id = rm_id
        self.around = Around()
        self.keys: dict[tuple[str, str], KeyTrack] = {}
        self.foreign: dict[str, ForeignTrack] = {}
        self.ordered = False

    # ---- Sent items ----

    def say(self, items: Iterable[Item]) -> None:
        """Record items that are sent in this order."""
        for track, item in self._concerned(items):
            track.say(item)

    def doubt(self, items: Iterable[Item]) -> None:
        """Record that items, the last ones of their kind, were in flight when their stream broke."""
        for track, item in self._concerned(items):
            track.doubt(item)

    def _concerned(self, items: Iterable[Item]) -> Iterator[tuple[Track[Any, Any, Any], Item]]:
        for item in items:
            match item:
                case NodeItem():
                    yield self.around.node(item.node_id), item
                case AppItem() | RemovalItem():
                    yield self.around.app(item.app_id), item
                case AskItem():
                    self.around.huge = self.around.huge or item.huge
                    self.around.required.add(item.required)
                    yield self._key(item.app_id, item.key), item
                case ReleaseItem() if item.key or item.fault or not item.app_id:
                    yield self._key(item.app_id, item.key), item
                case ReleaseItem():
                    for (app_id, _), track in self.keys.items():
                        if app_id == item.app_id:
                            yield track, item

    def _key(self, app_id: str, key: str) -> KeyTrack | ForeignTrack:
        if not app_id:
            return self.foreign.get(key) or self.foreign.setdefault(key, ForeignTrack(key, self.around))
        name = (app_id, key)
        return self.keys.get(name) or self.keys.setdefault(name, KeyTrack(app_id, key, self.around))

    # ---- Received answers ----

    def hear(self, message: object) -> None:
        """Check a response of any kind."""
        match message:
            case si.NodeResponse():
                self.hear_nodes(message)
            case si.ApplicationResponse():
                self.hear_applications(message)
            case si.AllocationResponse():
                self.hear_allocations(message)
            case session.PredicateChecks():
                for check in message.checks:
                    self._check_partition(check.partition_name, check.application_id)
                    asked = Asked(tuple(check.node_ids))
                    self._own(check.application_id, check.allocation_key).hear(asked)

    def hear_nodes(self, response: si.NodeResponse) -> None:
        """Check accepted and rejected nodes."""
        answers: _Answers = {}
        for taken in response.accepted:
            answers.setdefault(taken.nodeID, []).append(Accepted())
        for refused in response.rejected:
            answers.setdefault(refused.nodeID, []).append(Rejected(refused.reason))
        for node_id, given in answers.items():
            self.around.node(node_id).hear(*given)

    def hear_applications(self, response: si.ApplicationResponse) -> None:
        """Check accepted and rejected applications, and their new states."""
        answers: _Answers = {}
        for taken in response.accepted:
            answers.setdefault(taken.applicationID, []).append(Accepted())
        for refused in response.rejected:
            answers.setdefault(refused.applicationID, []).append(Rejected(refused.reason))
        for app_id, given in answers.items():
            self.around.app(app_id).hear(*given)
        for updated in response.updated:
            if updated.state in ("Completed", "Failed"):
                self.around.end(updated.applicationID)
            self.around.app(updated.applicationID).hear(Updated(updated.state))

    def hear_allocations(self, response: si.AllocationResponse) -> None:
        """Check a response about allocations, which has one kind of answer (spec § 1.6.8)."""
        kinds = [field.name for field, _ in response.ListFields()]
        if len(kinds) > 1:
            raise Violation(f"one response has {' and '.join(kinds)}")
        for new in response.new:
            self._check_partition(new.partitionName, new.applicationID)
            size = amounts({name: q.value for name, q in new.resourcePerAlloc.resources.items()})
            heard = New(new.nodeID, size, new.priority, new.placeholder)
            self._own(new.applicationID, new.allocationKey).hear(heard)
        for ended in response.released:
            self._check_partition(ended.partitionName, ended.applicationID)
            end = _END.get(ended.terminationType)
            if end is None:
                raise Violation(f"{ended.allocationKey} is to end: {ended.terminationType}")
            self._own(ended.applicationID, ended.allocationKey).hear(end(ended.message))
        for refused in response.rejectedAllocations:
            heard_no = Rejected(refused.reason)
            self._key(refused.applicationID, refused.allocationKey).hear(heard_no)

    def _own(self, app_id: str, key: str) -> KeyTrack:
        if self.ordered and not self._stands(app_id):
            raise Violation(f"S2: {key} of {app_id}, which was not accepted before")
        track = self._key(app_id, key)
        if not isinstance(track, KeyTrack):
            raise Violation(f"key {key!r} is foreign, and is told of")
        return track

    def _stands(self, app_id: str) -> bool:
        """True if the application may exist by the answers so far."""
        track = self.around.apps.get(app_id)
        return track is not None and track.may_stand()

    def _check_partition(self, name: str, app_id: str) -> None:
        expected = f"[{self.rm_id}]{home(app_id)}"
        if name != expected:
            raise Violation(f"{app_id} is said to be in {name}, not in {expected}")

    # ---- Certainty ----

    @property
    def is_registered(self) -> bool:
        """True if the RM is registered."""
        return bool(self.around.partitions)

    @property
    def is_certain(self) -> bool:
        """True if there were no messages since the last certain state."""
        return all(track.is_certain for track in self._tracks())

    def _tracks(self) -> Iterator[Track[Any, Any, Any]]:
        for tracks in (self.around.nodes, self.around.apps, self.keys, self.foreign):
            yield from tracks.values()

    def settle(self, books: Books) -> None:
        """Check that the server's records are possible now that all messages were processed."""
        around = self.around
        if books.partitions != around.partitions:
            known = sorted(around.partitions)
            raise Violation(f"partitions {sorted(books.partitions)}, not {known}")
        _check_known("node", books.nodes, around.nodes)
        _check_known("application", books.apps, around.apps)
        _check_known("key", books.keys, self.keys)
        _check_known("foreign key", books.foreign, self.foreign)
        # Tracks of keys use the possible states of nodes and applications, so keys are settled first.
        _settle(self.keys, books.keys)
        _settle(self.foreign, books.foreign)
        _settle(around.nodes, books.nodes)
        _settle(around.apps, books.apps)
        around.certain()

    def registered(self, partitions: frozenset[str], *, held: bool) -> None:
        """Reset after a registration: nothing exists, and no message is in flight."""
        self.around.registered(partitions, held=held)
        for key in self.keys.values():
            key.restart(None)
        for other in self.foreign.values():
            other.restart(None)


def _check_known(what: str, booked: dict[K, Any], known: dict[K, V]) -> None:
    strange = booked.keys() - known.keys()
    if strange:
        raise Violation(f"the books have {what} {sorted(map(str, strange))}, which nobody sent")


def _settle(tracks: Mapping[K, Track[Any, Any, Any]], booked: Mapping[K, Any]) -> None:
    for name, track in tracks.items():
        track.settle(booked.get(name))


def believed(ledger: Ledger) -> Books:
    """The state that the RM would replay: possibly processed messages count as processed."""
    nodes = _guesses(ledger.around.nodes)
    apps = _guesses(ledger.around.apps)
    keys: dict[tuple[str, str], Held] = {}
    for name, held in _guesses(ledger.keys).items():
        if name[0] in apps:
            there = held.node_id in nodes
            keys[name] = held if there else held._replace(node_id="")
    foreign = {key: at for key, at in _guesses(ledger.foreign).items() if at.node_id in nodes}
    return Books(ledger.around.partitions, nodes, apps, keys, foreign)


def _guesses(tracks: Mapping[K, Track[V | None, Any, Any]]) -> dict[K, V]:
    guesses = {name: track.guess() for name, track in tracks.items()}
    return {name: guess for name, guess in guesses.items() if guess is not None}
