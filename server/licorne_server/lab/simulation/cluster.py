"""The nodes of a simulation: ``64xvcore=32,memory=128Gi``."""

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from licorne_core.messages.commands import NodeAction, NodeUpdate
from licorne_core.values.errors import ConfigError, shown
from licorne_core.values.ids import NodeId
from licorne_core.values.resources import VCORE, Resources, parse_quantity

MAX_NODES: Final = 100_000
EXAMPLE: Final = "64xvcore=32,memory=128Gi"


class NodeKind(NamedTuple):
    """Equal nodes: their number, and the capacity of each."""

    number: int
    capacity: Resources


def parse_nodes(text: str) -> NodeKind:
    """Read nodes as ``64xvcore=32,memory=128Gi``.

    Raises:
        ValueError: the text has another form; the message gives the reason.
    """
    number, times, amounts = text.partition("x")
    if not (times and number.isascii() and number.isdigit() and len(number) < 10 and int(number)):
        raise ValueError(f"'{shown(text)}' is not of the form {EXAMPLE}")
    if int(number) > MAX_NODES:
        raise ValueError(f"'{shown(text)}' has {number} nodes, at most {MAX_NODES} are allowed")
    capacity: dict[str, int] = {}
    for part in amounts.split(","):
        name, _, amount = (each.strip() for each in part.partition("="))
        if not name or not amount or name in capacity:
            raise ValueError(f"'{shown(text)}' is not of the form {EXAMPLE}")
        try:
            capacity[name] = parse_quantity(name, amount)
        except ConfigError as error:
            raise ValueError(error.problems[0].message) from None
    return NodeKind(int(number), capacity)


def recorded(nodes: int, processors: int) -> NodeKind | None:
    """Nodes of the size that a trace states; None if it states none."""
    if not processors:
        return None
    count = min(nodes or processors, processors)
    return NodeKind(count, {VCORE: 1000 * (processors // count)})


def updates_of(kinds: Sequence[NodeKind], partition: str) -> Iterator[NodeUpdate]:
    """The nodes as an RM reports them: ``node-1`` and so on."""
    number = 0
    for kind in kinds:
        for _ in range(kind.number):
            number += 1
            yield NodeUpdate(
                node_id=NodeId(f"node-{number}"),
                action=NodeAction.CREATE,
                partition=partition,
                capacity=kind.capacity,
            )


def total(kinds: Sequence[NodeKind]) -> Resources:
    """Capacity of all nodes."""
    sums: dict[str, int] = {}
    for kind in kinds:
        for name, amount in kind.capacity.items():
            sums[name] = sums.get(name, 0) + amount * kind.number
    return sums


def largest(kinds: Sequence[NodeKind]) -> Resources:
    """The largest amount of each resource that a node has."""
    most: dict[str, int] = {}
    for kind in kinds:
        for name, amount in kind.capacity.items():
            most[name] = max(most.get(name, 0), amount)
    return most


def room_on(kind: NodeKind, amounts: Resources) -> int:
    """Number of members of this size that fit on an empty node of the kind."""
    return min((kind.capacity.get(name, 0) // amount for name, amount in amounts.items()), default=0)


def room_for(kinds: Sequence[NodeKind], amounts: Resources) -> int:
    """Number of members of this size that fit on the empty nodes."""
    return sum(kind.number * room_on(kind, amounts) for kind in kinds)
