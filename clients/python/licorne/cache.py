"""The state of a resource manager, as it was sent and received: the source of every replay.

The cache has no access to streams or the loop. Every change returns the messages to send, and none if nothing
differs, so all changes are idempotent by key.

When the placeholders of a gang have waited too long, the server drops all asks of the application. With the
style ``Soft`` the application later returns to Accepted. Then, or in an earlier replay, the cache submits the
dropped members again.
"""

import dataclasses
from collections import defaultdict, deque
from collections.abc import Iterable, Mapping
from typing import NamedTuple, TypeVar

from licorne import fields, model, wire
from licorne.errors import Rejected
from licorne.events import AppKey, KnownApplication, KnownAsk, KnownNode, Released
from licorne.model import Allocation, Application, Ask, Node, Termination
from licorne.si.v1 import si_pb2 as si
from licorne.values import shown


class Dropped:
    """Asks that the server has dropped, by application. Each is removed once."""

    def __init__(self) -> None:
        """Start without asks."""
        self._by_application: dict[AppKey, dict[str, KnownAsk]] = {}
        self._application_of: dict[str, AppKey] = {}
        """The application of each dropped ask, by the ask's key."""

    def add(self, known: KnownAsk) -> None:
        """Append an ask to the dropped asks of its application."""
        ask = known.ask
        application = ask.partition, ask.application_id
        self._by_application.setdefault(application, {})[ask.key] = known
        self._application_of[ask.key] = application

    def forget(self, keys: Iterable[str]) -> None:
        """Remove the asks with these keys, which were released or submitted again."""
        if not self._application_of:
            return
        for key in keys:
            application = self._application_of.pop(key, None)
            if application is not None:
                del self._by_application[application][key]

    def take(self, application: AppKey) -> list[KnownAsk]:
        """Remove and return the asks of an application, in the order in which they were dropped."""
        taken = self._by_application.pop(application, {})
        for key in taken:
            del self._application_of[key]
        return list(taken.values())

    def take_all(self) -> list[KnownAsk]:
        """Remove and return the asks of all applications."""
        return [known for application in list(self._by_application) for known in self.take(application)]


REMEMBERED_CHANGES = 8
"""Maximum number of unanswered changes of one ask that can be undone; the server can refuse each of them."""

_K = TypeVar("_K")


class Submitted(NamedTuple):
    """The messages that submit applications."""

    applications: list[si.AddApplicationRequest]
    placeholders: list[si.Allocation]
    """The asks for placeholders of their task groups, to be sent after the applications."""


class Cache:
    """Nodes, applications, asks and allocations, each in the order in which they were added."""

    def __init__(self) -> None:
        """Make an empty cache."""
        self.nodes: dict[str, KnownNode] = {}
        """The nodes, by id."""
        self.applications: dict[AppKey, KnownApplication] = {}
        """The applications that have not ended, by partition and id."""
        self.partitions: set[str] = set()
        """All partitions to which an application was ever submitted."""
        self._submitted = 0
        """Number of applications that were ever submitted."""
        self.asks: dict[str, KnownAsk] = {}
        """The pending asks and the allocations, by key."""
        self.by_application: defaultdict[AppKey, set[str]] = defaultdict(set)
        """By application: the keys of its asks and allocations; there are no empty sets."""
        self.by_node: defaultdict[str, set[str]] = defaultdict(set)
        """By node: the keys of the allocations on it; there are no empty sets."""
        self.releasing: dict[str, Released] = {}
        """By key of a released allocation: the event for the server's confirmation."""
        self.unconfirmed: set[str] = set()
        """The keys of reported allocations that the server has not echoed yet."""
        self.dropped = Dropped()
        """The asks that the server has dropped and the client will submit again."""
        self.orphans: set[str] = set()
        """The keys of placeholders of rejected applications: the server will reject these asks too."""
        self._before: dict[str, deque[KnownAsk]] = {}
        """By key: the ask before each change that the server may still refuse, oldest first."""

    # ---- Nodes ----

    def add_nodes(self, nodes: Iterable[Node]) -> list[si.NodeInfo]:
        """Add nodes. For an existing node only the capacity is updated."""
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
        """Change the capacity of a node. Raises Rejected for an unknown node."""
        return self.add_nodes([dataclasses.replace(self._node(node_id).node, capacity=capacity)])

    def set_drained(self, node_id: str, *, drained: bool) -> list[si.NodeInfo]:
        """Drain a node, or end its drain. Raises Rejected for an unknown node."""
        known = self._node(node_id)
        if known.node.drained == drained:
            return []
        known.node = dataclasses.replace(known.node, drained=drained)
        if drained:
            return [wire.node_change(known.node, si.NodeInfo.DRAIN_NODE)]
        return [wire.node_change(known.node, si.NodeInfo.DRAIN_TO_SCHEDULABLE)]

    def remove_node(self, node_id: str) -> list[si.NodeInfo]:
        """Remove a node and the allocations on it; returns no message for an unknown node."""
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

    def submit(self, applications: Iterable[Application], placeholders_at: int | None = None) -> Submitted:
        """Add applications and the asks for their placeholders. Existing applications are unchanged.

        `placeholders_at` is the time of these asks in unix seconds; None adds no placeholders. Raises
        Rejected if another ask has the key of a placeholder.
        """
        given = {(item.partition, item.application_id): item for item in fields.applications(applications)}
        fresh = {key: item for key, item in given.items() if key not in self.applications}
        messages = [wire.application(item) for item in fresh.values()]
        asks: dict[str, Ask] = {}
        if placeholders_at is not None:
            for item in fresh.values():
                for ask in model.placeholders(item):
                    if ask.key in self.asks or ask.key in asks:
                        reason = f"another ask has the key {ask.key} of a placeholder"
                        raise Rejected(item.application_id, reason)
                    asks[ask.key] = ask
        placeholders = [wire.allocation(ask) for ask in asks.values()]
        for key, item in fresh.items():
            self._submitted += 1
            self.applications[key] = KnownApplication(item, self._submitted)
            self.partitions.add(item.partition)
        for ask in asks.values():
            self._note(ask, placeholders_at or 0)
        return Submitted(messages, placeholders)

    def remove_application(self, key: AppKey) -> list[si.RemoveApplicationRequest]:
        """Remove an application and its asks; returns no message for an unknown application."""
        partition, application_id = key
        fields.identifier("partition", partition)
        fields.identifier("application_id", application_id)
        if self.applications.pop(key, None) is None:
            return []
        self.dropped.take(key)
        for ask_key in list(self.by_application.get(key, ())):
            self.expect_release(ask_key)
        return [si.RemoveApplicationRequest(applicationID=application_id, partitionName=partition)]

    # ---- Asks and allocations ----

    def ask(self, asks: Iterable[Ask], now: int) -> list[si.Allocation]:
        """Add asks at `now` in unix seconds. An existing ask is resized if its resources differ.

        Raises Rejected if `placeholder` or `task_group` differ from those of the existing ask.
        """
        known_asks = self.asks
        fresh = []
        for ask in fields.asks(asks):
            known = known_asks.get(ask.key)
            if known is not None:
                _check_kind(known.ask, ask)
            if known is None or known.ask.resources != ask.resources:
                fresh.append(ask)
        messages = [wire.allocation(ask) for ask in fresh]
        for ask in fresh:
            self._note(ask, now)
        return messages

    def report(self, allocations: Iterable[Allocation], now: int) -> list[si.Allocation]:
        """Add running allocations; a pending ask with the same key is placed on the reported node."""
        messages = []
        fresh = []
        for item in fields.allocations(allocations):
            known = self.asks.get(item.ask.key)
            if known is not None:
                _check_kind(known.ask, item.ask)
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
            self._add(KnownAsk(ask, now))
        else:
            self._before.setdefault(ask.key, deque(maxlen=REMEMBERED_CHANGES)).append(known)
            resized = dataclasses.replace(known.ask, resources=ask.resources)
            self.asks[ask.key] = known._replace(ask=resized)

    def _add(self, known: KnownAsk) -> None:
        """Add an ask, which is no longer dropped."""
        ask = known.ask
        self.dropped.forget([ask.key])
        self.asks[ask.key] = known
        self.by_application[ask.partition, ask.application_id].add(ask.key)

    def ask_again(self, dropped: Iterable[KnownAsk]) -> list[si.Allocation]:
        """Add dropped asks again, with their original times; returns their messages."""
        messages = []
        for known in dropped:
            self._add(known)
            messages.append(wire.allocation(known.ask, asked_at=known.asked_at))
        return messages

    def release(self, keys: Iterable[str], termination: Termination) -> list[si.AllocationRelease]:
        """Remove asks and allocations; returns no message for an unknown key."""
        if not isinstance(termination, Termination):
            raise TypeError(f"termination is {shown(termination)}: it must be a Termination")
        messages = []
        given = fields.keys(keys)
        self.dropped.forget(given)
        for key in given:
            known = self.asks.get(key)
            if known is not None:
                messages.append(wire.release(known.ask, termination))
                # Any other termination confirms a release that the server has requested, and is not answered.
                if termination is Termination.STOPPED:
                    self.expect_release(key)
                else:
                    self.drop(key)
        return messages

    # ---- Answers of the server ----

    def place(self, key: str, node_id: str) -> None:
        """Record the server's allocation of an ask to a node.

        The ask remains on the node if an earlier change of it is refused later.
        """
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
        """Undo the last change of an ask, because it was refused.

        Returns False if there is no change to undo: the ask itself was refused.
        """
        before = self._before.get(key)
        if not before:
            return False
        known, self.asks[key] = self.asks[key], before.pop()
        if known.node_id != self.asks[key].node_id:
            self.unconfirmed.discard(key)
            _discard(self.by_node, known.node_id, key)
        return True

    def begin_replay(self) -> list[Released]:
        """Record that the server has lost the state of this RM.

        Returns the unconfirmed releases, which are now complete. No application counts as accepted, and no
        earlier change can be refused. Dropped asks are added again.
        """
        self.ask_again(self.dropped.take_all())
        self._before.clear()
        self.orphans.clear()
        for known in self.applications.values():
            known.accepted = False
        released = list(self.releasing.values())
        self.releasing.clear()
        return released

    def drop(self, key: str) -> KnownAsk:
        """Remove an ask or an allocation; returns it."""
        known = self.asks.pop(key)
        self._before.pop(key, None)
        self.unconfirmed.discard(key)
        _discard(self.by_application, (known.ask.partition, known.ask.application_id), key)
        if known.node_id:
            _discard(self.by_node, known.node_id, key)
        return known

    def expect_release(self, key: str) -> None:
        """Remove an ask or an allocation; for an allocation, expect the server's confirmation.

        The server does not confirm the release of a foreign allocation.
        """
        known = self.drop(key)
        if known.node_id and wire.FOREIGN_TAG not in known.ask.tags:
            ask = known.ask
            self.releasing[key] = Released(key, ask.application_id, known.node_id, "", ask.placeholder)


def _discard(index: dict[_K, set[str]], at: _K, key: str) -> None:
    keys = index[at]
    keys.discard(key)
    if not keys:
        del index[at]


def creation(node: Node) -> si.NodeInfo.ActionFromRM.ValueType:
    """The action that adds a node, either drained or not."""
    return si.NodeInfo.CREATE_DRAIN if node.drained else si.NodeInfo.CREATE


def _check_kind(known: Ask, ask: Ask) -> None:
    """Raise Rejected if `placeholder` or `task_group` of two asks with one key differ."""
    for name in ("placeholder", "task_group"):
        before, given = getattr(known, name), getattr(ask, name)
        if before != given:
            reason = f"the ask of this key has {shown(before)}"
            raise Rejected(ask.key, f"{name} is {shown(given)}: {reason}")
