"""Everything that a resource manager has told and been told: the source of every replay.

Pure bookkeeping, no wire and no loop. Every change answers what has to be sent for
it; a change that says nothing new answers nothing, which makes all of them idempotent by key.
"""

import dataclasses
from collections import defaultdict, deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple, TypeVar

from licorne import fields, wire
from licorne.errors import Rejected
from licorne.events import ApplicationStateChanged, Released
from licorne.model import Allocation, Application, Ask, Node, Termination
from licorne.si.v1 import si_pb2 as si

AppKey = tuple[str, str]
"""Partition and application id."""

REMEMBERED_CHANGES = 8
"""Changes of one ask that may be under way at once and be refused one by one."""

_K = TypeVar("_K")


@dataclass(slots=True)
class KnownNode:
    """A node as it is now, and whether the server has accepted it at some time."""

    node: Node
    accepted: bool = False


@dataclass(slots=True)
class KnownApplication:
    """An application, and what the server has said about it."""

    application: Application
    number: int
    """Rises with every application that is submitted; a replay sends them in this order."""
    accepted: bool = False
    """Whether the server has accepted it since the last registration."""
    told_accepted: bool = False
    """Whether the caller has been told of an acceptance; it is told once."""
    told_state: str = ""
    """The state that the caller was told last."""
    heard: ApplicationStateChanged | None = None
    """The state that the server reported last."""


class KnownAsk(NamedTuple):
    """An ask that has not ended: pending, or allocated to a node."""

    ask: Ask
    asked_at: int
    """When the caller made it, in unix seconds."""
    node_id: str = ""
    """The node that it is allocated to; empty while it is pending."""


class Cache:
    """Nodes, applications, asks and allocations, each in the order in which they came."""

    def __init__(self) -> None:
        """Start with nothing."""
        self.nodes: dict[str, KnownNode] = {}
        self.applications: dict[AppKey, KnownApplication] = {}
        self.partitions: set[str] = set()
        self._submitted = 0
        self.asks: dict[str, KnownAsk] = {}
        self.by_application: defaultdict[AppKey, set[str]] = defaultdict(set)
        self.by_node: defaultdict[str, set[str]] = defaultdict(set)
        # Released by us while they ran; the server has not confirmed it yet.
        self.releasing: dict[str, Released] = {}
        # Reported as running; the server has not echoed them yet.
        self.unconfirmed: set[str] = set()
        # What an ask was before each change of it, which the server may yet refuse.
        self._before: dict[str, deque[KnownAsk]] = {}

    # ---- Nodes ----

    def add_nodes(self, nodes: Iterable[Node]) -> list[si.NodeInfo]:
        """Nodes that come. A known one is taken for a new capacity of it."""
        given = {node.node_id: node for node in fields.nodes(nodes)}
        fresh = [node for node in given.values() if node.node_id not in self.nodes]
        changed = [
            dataclasses.replace(known.node, capacity=given[node_id].capacity)
            for node_id in given
            if (known := self.nodes.get(node_id)) and known.node.capacity != given[node_id].capacity
        ]
        messages = [wire.node(node, creation(node)) for node in fresh]
        messages += [wire.node(node, si.NodeInfo.UPDATE) for node in changed]
        for node in fresh:
            self.nodes[node.node_id] = KnownNode(node)
        for node in changed:
            self.nodes[node.node_id].node = node
        return messages

    def update_node(self, node_id: str, capacity: Mapping[str, int]) -> list[si.NodeInfo]:
        """A node has another capacity. Raises Rejected for an unknown node."""
        return self.add_nodes([dataclasses.replace(self._node(node_id).node, capacity=capacity)])

    def set_drained(self, node_id: str, *, drained: bool) -> list[si.NodeInfo]:
        """A node takes nothing new any more, or again. Raises Rejected for an unknown node."""
        known = self._node(node_id)
        if known.node.drained == drained:
            return []
        known.node = dataclasses.replace(known.node, drained=drained)
        if drained:
            return [wire.node_change(known.node, si.NodeInfo.DRAIN_NODE)]
        return [wire.node_change(known.node, si.NodeInfo.DRAIN_TO_SCHEDULABLE)]

    def remove_node(self, node_id: str) -> list[si.NodeInfo]:
        """A node goes, and what runs on it ends. An unknown one has gone already."""
        known = self.nodes.pop(fields.identifier("node_id", node_id), None)
        if known is None:
            return []
        for key in list(self.by_node.get(node_id, ())):
            self.expect_release(key)
        return [wire.node_change(known.node, si.NodeInfo.DECOMISSION)]

    def _node(self, node_id: str) -> KnownNode:
        known = self.nodes.get(fields.identifier("node_id", node_id))
        if known is None:
            raise Rejected(node_id, "there is no such node")
        return known

    # ---- Applications ----

    def submit(self, applications: Iterable[Application]) -> list[si.AddApplicationRequest]:
        """Applications that come; known ones are there already."""
        given = {
            (item.partition, item.application_id): item
            for item in fields.applications(applications)
        }
        fresh = {key: item for key, item in given.items() if key not in self.applications}
        messages = [wire.application(item) for item in fresh.values()]
        for key, item in fresh.items():
            self._submitted += 1
            self.applications[key] = KnownApplication(item, self._submitted)
            self.partitions.add(item.partition)
        return messages

    def remove_application(self, key: AppKey) -> list[si.RemoveApplicationRequest]:
        """An application goes with all it has. An unknown one has gone already."""
        partition, application_id = key
        fields.identifier("partition", partition)
        fields.identifier("application_id", application_id)
        if self.applications.pop(key, None) is None:
            return []
        for ask_key in list(self.by_application.get(key, ())):
            self.expect_release(ask_key)
        return [si.RemoveApplicationRequest(applicationID=application_id, partitionName=partition)]

    # ---- Asks and allocations ----

    def ask(self, asks: Iterable[Ask], now: int) -> list[si.Allocation]:
        """Asks that come; one with a known key and other resources is resized."""
        known_asks = self.asks
        fresh = [
            ask
            for ask in fields.asks(asks)
            if (known := known_asks.get(ask.key)) is None or known.ask.resources != ask.resources
        ]
        messages = [wire.allocation(ask) for ask in fresh]
        for ask in fresh:
            self._note(ask, now)
        return messages

    def report(self, allocations: Iterable[Allocation], now: int) -> list[si.Allocation]:
        """Allocations that exist already, or asks that the caller has placed itself."""
        messages = []
        fresh = []
        for item in fields.allocations(allocations):
            known = self.asks.get(item.ask.key)
            if known is None or not known.node_id:
                messages.append(wire.allocation(item.ask, item.node_id))
                fresh.append(item)
        for item in fresh:
            self._note(item.ask, now)
            self._settle_on(item.ask.key, item.node_id)
            self.unconfirmed.add(item.ask.key)
        return messages

    def _note(self, ask: Ask, now: int) -> None:
        known = self.asks.get(ask.key)
        if known is None:
            self.asks[ask.key] = KnownAsk(ask, now)
            self.by_application[ask.partition, ask.application_id].add(ask.key)
        else:
            self._before.setdefault(ask.key, deque(maxlen=REMEMBERED_CHANGES)).append(known)
            resized = dataclasses.replace(known.ask, resources=ask.resources)
            self.asks[ask.key] = known._replace(ask=resized)

    def release(self, keys: Iterable[str], termination: Termination) -> list[si.AllocationRelease]:
        """Asks that are wanted no longer, allocations that run no longer; unknown keys are gone."""
        if not isinstance(termination, Termination):
            raise TypeError(f"termination is {fields.shown(termination)}: it must be a Termination")
        messages = []
        for key in fields.keys(keys):
            known = self.asks.get(key)
            if known is not None:
                messages.append(wire.release(known.ask, termination))
                # The server answers the releases of our own will only, not our confirmations.
                if termination is Termination.STOPPED:
                    self.expect_release(key)
                else:
                    self.drop(key)
        return messages

    # ---- Shared with what the server says ----

    def place(self, key: str, node_id: str) -> None:
        """A known ask has got its node from the server, whatever of it was changed before."""
        before = self._before.get(key)
        if before is not None:
            placed = [known._replace(node_id=node_id) for known in before]
            self._before[key] = deque(placed, REMEMBERED_CHANGES)
        self._settle_on(key, node_id)

    def _settle_on(self, key: str, node_id: str) -> None:
        known = self.asks[key]
        if known.node_id:
            _discard(self.by_node, known.node_id, key)
        self.asks[key] = KnownAsk(known.ask, known.asked_at, node_id)
        self.by_node[node_id].add(key)

    def undo(self, key: str) -> bool:
        """The last change of a known ask was refused: it is what it was; False if it was new."""
        before = self._before.get(key)
        if not before:
            return False
        known, self.asks[key] = self.asks[key], before.pop()
        if known.node_id != self.asks[key].node_id:
            self.unconfirmed.discard(key)
            _discard(self.by_node, known.node_id, key)
        return True

    def begin_replay(self) -> list[Released]:
        """Note that the server has dropped everything; returns the releases that are over by that.

        No application is accepted any more, and no earlier change can be refused any more.
        """
        self._before.clear()
        for known in self.applications.values():
            known.accepted = False
        released = list(self.releasing.values())
        self.releasing.clear()
        return released

    def drop(self, key: str) -> KnownAsk:
        """Forget a known ask or allocation."""
        known = self.asks.pop(key)
        self._before.pop(key, None)
        self.unconfirmed.discard(key)
        _discard(self.by_application, (known.ask.partition, known.ask.application_id), key)
        if known.node_id:
            _discard(self.by_node, known.node_id, key)
        return known

    def expect_release(self, key: str) -> None:
        """Forget it, and if it runs remember that the server has to confirm its end."""
        known = self.drop(key)
        if known.node_id and wire.FOREIGN_TAG not in known.ask.tags:
            self.releasing[key] = Released(key, known.ask.application_id, known.node_id, "")


def _discard(index: dict[_K, set[str]], at: _K, key: str) -> None:
    keys = index[at]
    keys.discard(key)
    if not keys:
        del index[at]


def creation(node: Node) -> si.NodeInfo.ActionFromRM.ValueType:
    """How a node comes: drained or not."""
    return si.NodeInfo.CREATE_DRAIN if node.drained else si.NodeInfo.CREATE
