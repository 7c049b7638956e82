"""Changes of a replay: other configurations of RMs, and additional nodes."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from licorne_core.config.schema import Configuration
from licorne_core.messages.commands import (
    BeginReplay,
    Command,
    EndReplay,
    NodeAction,
    NodeUpdate,
    Options,
    RegisterRm,
    UpdateConfiguration,
    UpdateNodes,
)
from licorne_core.values.errors import ConfigError
from licorne_core.values.ids import NodeId, RmId
from licorne_core.values.resources import parse_quantity
from licorne_server.lab.simulation.cluster import MAX_NODES

PARTITION = "partition"


@dataclass(frozen=True, slots=True, kw_only=True)
class AddedNodes:
    """A number of equal nodes that are added."""

    count: int
    capacity: Mapping[str, int]
    attributes: Mapping[str, str]
    partition: str = ""

    def updates(self, first: int) -> list[NodeUpdate]:
        """The nodes, numbered from `first` on."""
        return [
            NodeUpdate(
                node_id=NodeId(f"added-{number}"),
                action=NodeAction.CREATE,
                partition=self.partition,
                attributes=self.attributes,
                capacity=self.capacity,
            )
            for number in range(first, first + self.count)
        ]


def parse_nodes(text: str) -> AddedNodes:
    """Nodes from a text such as ``+20xvcore=32,memory=128Gi,rack=r7``; raises ValueError.

    A quantity is an amount of the node, any other value an attribute; ``partition`` is the partition of the
    nodes.
    """
    count, cross, rest = text.removeprefix("+").partition("x")
    if not (text.startswith("+") and cross and count.isascii() and count.isdecimal() and len(count) < 7):
        raise ValueError(f"{text} is not like +20xvcore=32,memory=128Gi")
    if not 0 < int(count) <= MAX_NODES:
        raise ValueError(f"{count} nodes are not from 1 to {MAX_NODES:,}")
    capacity: dict[str, int] = {}
    attributes: dict[str, str] = {}
    for pair in rest.split(","):
        name, equals, value = pair.partition("=")
        if not (name and equals and value):
            raise ValueError(f"{pair!r} of {text} is no NAME=VALUE")
        if name in capacity or name in attributes:
            raise ValueError(f"{name} is in {text} twice")
        try:
            amounts = {} if name == PARTITION else {name: parse_quantity(name, value)}
        except ConfigError:
            amounts = {}
        capacity |= amounts
        if not amounts:
            attributes[name] = value
    partition = attributes.pop(PARTITION, "")
    if not capacity:
        raise ValueError(f"{text} has no amounts")
    return AddedNodes(count=int(count), capacity=capacity, attributes=attributes, partition=partition)


@dataclass(slots=True, kw_only=True)
class Changes:
    """Changes of the RMs in `rms`, or of all RMs if it is None."""

    config: Configuration | None = None
    nodes: tuple[AddedNodes, ...] = ()
    rms: frozenset[RmId] | None = None
    _registrations: dict[RmId, tuple[RegisterRm, RegisterRm]] = field(default_factory=dict)
    """The last registration of each RM, as recorded and as changed."""
    _awaiting: set[RmId] = field(default_factory=set)
    """RMs that have registered, but have not received their additional nodes yet."""
    _replaying: set[RmId] = field(default_factory=set)

    def concern(self, rm_id: RmId) -> bool:
        """True if the changes apply to this RM."""
        return self.rms is None or rm_id in self.rms

    def options(self, options: Options) -> Options:
        """The options of the core with the changes."""
        if self.config is None or self.rms is not None:
            return options
        return replace(options, default_config=self.config)

    def of(self, command: Command) -> Command | None:
        """The command that replaces a recorded command; None if that is left out."""
        if self.config is not None and isinstance(command, RegisterRm | UpdateConfiguration):
            if not self.concern(command.rm_id):
                return command
            if isinstance(command, UpdateConfiguration):
                return None
            # All steps of a large command must be the same object.
            known = self._registrations.get(command.rm_id)
            if known is None or known[0] is not command:
                known = (command, replace(command, config=self.config))
                self._registrations[command.rm_id] = known
            return known[1]
        return command

    def after(self, command: Command) -> Command | None:
        """The additional nodes after a command of an RM; None if there is none.

        They follow the RM's first nodes after a registration or, if the RM replays, the end of the replay,
        because the core counts the items of a replay.
        """
        if not self.nodes:
            return None
        match command:
            case RegisterRm():
                if self.concern(command.rm_id):
                    self._awaiting.add(command.rm_id)
                self._replaying.discard(command.rm_id)
            case BeginReplay():
                self._replaying.add(command.rm_id)
            case EndReplay():
                self._replaying.discard(command.rm_id)
                return self._added(command.rm_id)
            case UpdateNodes():
                if command.rm_id not in self._replaying:
                    return self._added(command.rm_id)
        return None

    def _added(self, rm_id: RmId) -> Command | None:
        if rm_id not in self._awaiting:
            return None
        self._awaiting.remove(rm_id)
        updates: list[NodeUpdate] = []
        for added in self.nodes:
            updates += added.updates(len(updates) + 1)
        return UpdateNodes(rm_id=rm_id, nodes=updates)
