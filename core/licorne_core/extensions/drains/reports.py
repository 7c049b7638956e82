"""Fields about drains in reports of nodes."""

from dataclasses import dataclass

from licorne_core.extensions.drains.contents import Contents, contents_of
from licorne_core.extensions.drains.extension import Drains
from licorne_core.extensions.drains.messages import DrainTerms
from licorne_core.model.nodes.node import Node
from licorne_core.views.fields import Added, Moment, Of

_of_drain = Of[DrainTerms, Contents]()


@dataclass(frozen=True, slots=True, kw_only=True)
class DrainReport:
    """Progress of a drain that began at `start_time` with `allocations`; see `Contents`.

    Without a `deadline` no allocation is stopped: the drain waits until all have ended.
    """

    start_time: Moment = _of_drain(lambda terms: terms.start)
    deadline: Moment = _of_drain(lambda terms: terms.deadline or 0.0)
    allocations: int
    remaining: int = _of_drain.within(lambda _, there: there.remaining)
    stopping: int = _of_drain.within(lambda _, there: there.stopping)
    exempt: int = _of_drain.within(lambda _, there: there.exempt)


_drain_report = _of_drain.table(DrainReport)


def _drain_of(own: Drains, node: Node) -> DrainReport | None:
    terms = own.terms.get(node.node_id)
    return None if terms is None else _drain_report(terms, contents_of(own.context.applications, node))


FIELDS = {"node": (Added("drain", DrainReport | None, _drain_of),)}
