"""Preemption checks: the resource manager selects victims, so that an ask can run."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass

from licorne.cache import Cache
from licorne.fields import Range, whole
from licorne.model import Ask
from licorne.v1 import session_pb2 as pb


@dataclass(frozen=True, slots=True)
class Victim:
    """An allocation that would be preempted."""

    key: str
    application_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeVictims:
    """A node, and its victims."""

    node_id: str
    victims: tuple[Victim, ...]
    """In the order in which they would go. There may be more than the ask needs for its resources.
    """
    start_index: int
    """The resources of the ask fit once the victims up to this position are gone; -1: at once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PreemptionCheck:
    """A question: the victims that have to go on each of these nodes for an ask.

    They were not stopped yet.
    """

    id: int
    key: str
    application_id: str
    partition: str
    nodes: tuple[NodeVictims, ...]
    deadline: float
    """Seconds within which the answer is wanted."""
    ask: Ask | None
    """The ask; None if it was released meanwhile."""


Needs = Mapping[str, int]
"""By id of a node where the ask can run: the position of the last victim that has to go, not below
`start_index`; -1 for none. Nodes that are not in it are refused."""

JudgeVictims = Callable[[PreemptionCheck], Needs | Awaitable[Needs]]


def preemption_check(wire: pb.PreemptionCheck, cache: Cache) -> PreemptionCheck:
    """A preemption check as the caller sees it."""
    known = cache.asks.get(wire.allocation_key)
    return PreemptionCheck(
        id=wire.id,
        key=wire.allocation_key,
        application_id=wire.application_id,
        partition=wire.partition_name,
        nodes=tuple(
            NodeVictims(
                node_id=node.node_id,
                victims=tuple(Victim(v.allocation_key, v.application_id) for v in node.victims),
                start_index=node.start_index,
            )
            for node in wire.nodes
        ),
        deadline=wire.deadline_milliseconds / 1000,
        ask=None if known is None else known.ask,
    )


def preemption_answer(check: PreemptionCheck, needs: Needs) -> pb.PreemptionAnswer:
    """The answer to a preemption check. Nodes that are not in the check are left out.

    Raises ValueError for a position that is none of the node's, or before its start.
    """
    answer = pb.PreemptionAnswer(id=check.id)
    for node in check.nodes:
        if node.node_id not in needs:
            continue
        index, last = needs[node.node_id], len(node.victims) - 1
        limits = Range(node.start_index, last, f"{node.start_index} and {last}", "a position")
        if problem := whole(limits, f"the position for node {node.node_id}", index):
            raise ValueError(problem)
        answer.nodes.add(node_id=node.node_id, index=index)
    return answer
