"""Predicate checks (spec § 8.4): what is assumed, asked, answered and kept as results.

How many nodes a check is about is the core's choice; the oracle takes its checks as they are,
after a look whether they make sense.
"""

from dataclasses import dataclass, field

from licorne_core.effects import PredicatesAsked
from support.oracle.books import (
    AppRecord,
    AskClass,
    AskRecord,
    NodeRecord,
    ReservationRecord,
)
from support.oracle.checks import takes
from support.oracle.order import Look, node_key

NO_ANSWER = "no answer in time"
RETRY_SECONDS = 5.0


@dataclass(eq=False)
class PredicateCheck:
    """What the RM was asked about which nodes, as they were then, and who waits for its answer."""

    ask_class: AskClass
    allocate: bool
    nodes: list[tuple[NodeRecord, int]]
    assumed: list[tuple[str, str]] = field(default_factory=list)
    reservations: list[ReservationRecord] = field(default_factory=list)

    def is_about(self, node: NodeRecord) -> bool:
        """Whether it asks about the node as it is now."""
        return (node, node.told) in self.nodes


class PredicateChecks:
    """The open checks of a partition, and those that were never answered.

    `said` are the checks that the core asked for while the present command was handled.
    """

    def __init__(self) -> None:
        """None."""
        self.open: dict[int, PredicateCheck] = {}
        self.silent: dict[int, PredicateCheck] = {}
        self.said: list[PredicatesAsked] = []

    def about(self, ask: AskRecord, node: NodeRecord, *, allocate: bool) -> PredicateCheck | None:
        """The open check about the node as it is now."""
        alike = (ask.ask_class, allocate)
        return next(
            (
                check
                for check in self.open.values()
                if (check.ask_class, check.allocate) == alike and check.is_about(node)
            ),
            None,
        )

    def next(
        self, app_id: str, ask: AskRecord, nodes: dict[str, NodeRecord], *, allocate: bool
    ) -> PredicatesAsked:
        """The next check that the core asked for, which has to be for this ask; it is open now."""
        assert self.said, f"the core should have asked for {app_id} {ask.key}"
        said = self.said.pop(0)
        got = (said.app_id, said.key, said.allocate)
        assert got == (app_id, ask.key, allocate), f"core asks for {got}, not {app_id} {ask.key}"
        unknown = [node_id for node_id in said.nodes if node_id not in nodes]
        assert not unknown, f"core asks about {unknown}, which are no nodes"
        assert len({*said.nodes}) == len(said.nodes), f"core asks twice: {said.nodes}"
        asked = [(nodes[node_id], nodes[node_id].told) for node_id in said.nodes]
        self.open[said.check] = PredicateCheck(ask.ask_class, allocate, asked)
        return said

    def let_go(self, app_id: str, key: str) -> None:
        """An assumed ask waits no more."""
        for check in self.open.values():
            if (app_id, key) in check.assumed:
                check.assumed.remove((app_id, key))


def check_sense(look: Look, checks: PredicateChecks, ask: AskRecord, said: PredicatesAsked) -> None:
    """The nodes beside the candidate may take the ask, in node order, and nothing is known."""
    further = [look.nodes[node_id] for node_id in said.nodes[1:] if node_id in look.nodes]
    for node in further:
        assert takes(look, node, ask), f"core asks about {node}, where {ask} cannot go"
        known = (ask.ask_class, True) in node.results
        known = known or checks.about(ask, node, allocate=True) is not None
        assert not known, f"core asks about {node} again for {ask}"
    keys = [node_key(look, node) for node in further]
    assert keys == sorted(keys), f"core asks out of order: {said.nodes}"


def put_back(app: AppRecord, key: str) -> None:
    """An assumed ask is pending again, in its old place."""
    app.add(app.allocations.pop(key).ask)


def remember(check: PredicateCheck, refused: dict[str, str]) -> None:
    """Keep the results on nodes that are as they were asked about."""
    for node, told in check.nodes:
        if node.told == told:
            node.results[check.ask_class, check.allocate] = refused.get(node.node_id, "")


def forget_silence(check: PredicateCheck) -> None:
    """What the RM never said does not count against the nodes any longer."""
    name = (check.ask_class, check.allocate)
    for node, _ in check.nodes:
        if node.results.get(name) == NO_ANSWER:
            del node.results[name]
