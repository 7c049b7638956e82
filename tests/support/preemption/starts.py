"""Planned starts on nodes as they bind an ask that preempts, over records, plainly."""

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from licorne_core.model.apps.requests import VICTIMS
from support.preemption.records import Cluster, NodeRecord, RequestRecord, StartRecord, total

if TYPE_CHECKING:
    from support.preemption.brute_force import Rules


def fits_beside_starts(
    cluster: Cluster,
    ask: RequestRecord,
    node: NodeRecord,
    gone: Sequence[RequestRecord],
    promised: Sequence[RequestRecord],
) -> bool:
    """True if the node has room for the ask at each start that binds it, without these victims."""
    there = [one for one in cluster.requests if one.node == node.name and one.state not in VICTIMS]
    for start in node.starts:
        stays = [one for one in there if one not in gone and (one.app, one.key) not in start.gone]
        for name, wanted in ask.size.items():
            taken = node.occupied.get(name, 0) + total((*stays, *promised), name) + start.held.get(name, 0)
            if taken + wanted > node.capacity.get(name, 0) and not start.gives_way:
                return False
    return True


def with_passed_starts(rules: "Rules") -> Cluster:
    """The cluster in which starts give way to the ask: were their holders running, they might be stopped."""
    nodes = [
        replace(node, starts=tuple(replace(one, gives_way=_may_lose(rules, one)) for one in node.starts))
        for node in rules.cluster.nodes
    ]
    return replace(rules.cluster, nodes=tuple(nodes))


def _may_lose(rules: "Rules", start: StartRecord) -> bool:
    (holder,) = [one for one in rules.cluster.requests if (one.app, one.key) == start.holder]
    is_lower = rules.counted(holder, rules.ask) <= rules.counted(rules.ask, holder)
    return is_lower and holder.leaf in rules.eligible() and rules.is_over(holder.leaf)
