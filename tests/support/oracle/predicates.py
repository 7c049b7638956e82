"""Predicate checks (spec § 8.4): what is assumed, asked, answered and kept as results.

How many nodes a check is about is the core's choice; the oracle takes its checks as they are,
after a look whether they make sense.
"""

from dataclasses import dataclass, field

from licorne_core.messages.effects import AskedCheck
from support.oracle.books import AppRecord, AskClass, AskRecord, NodeRecord
from support.oracle.checks import takes
from support.oracle.judging import VictimCheck
from support.oracle.order import Look, node_key
from support.oracle.terms import NO_ANSWER, ReservationRecord

RETRY_SECONDS = 5.0


@dataclass(eq=False)
class PredicateCheck:
    """What the RM was asked about which nodes, as they were then, and who waits for its answer.

    `named` are application and key of the ask that it names. `sent`: it was written to the RM.
    `victims` are to stop by plans that wait for the answer.
    """

    named: tuple[str, str]
    ask_class: AskClass
    allocate: bool
    nodes: dict[NodeRecord, tuple[int, int]]
    sent: bool = False
    assumed: list[tuple[str, str]] = field(default_factory=list)
    reservations: list[ReservationRecord] = field(default_factory=list)
    victims: "VictimCheck | None" = None

    @property
    def is_orphaned(self) -> bool:
        """Whether the ask that it names waits for it no more: the RM may have refused that."""
        return self.allocate and self.named not in self.assumed

    def is_about(self, node: NodeRecord) -> bool:
        """Whether it asks about the node as it is now."""
        return node in self.nodes and self.nodes[node][0] == node.told

    def counts(self, node: NodeRecord, assumed: int, *, accepted: bool) -> bool:
        """Whether the answer means something for an ask that is assumed there with others.

        If the first node is accepted the RM has judged what follows knowing of it. Elsewhere the
        ask has to be alone on the node.
        """
        if not accepted:
            return self.is_about(node)
        first = next(iter(self.nodes))
        return self.nodes[node][1] == node.narrowed and (node is first or assumed == 1)


class PredicateChecks:
    """The open checks of a partition, and those that were never answered.

    `said` are the checks that the core asked for while the present command was handled. Of the
    checks about one class and node the last one is `latest`. `sent` are those that were written
    together, by the last of them.
    """

    def __init__(self) -> None:
        """None."""
        self.open: dict[int, PredicateCheck] = {}
        self.silent: dict[int, PredicateCheck] = {}
        self.sent: dict[int, list[int]] = {}
        self.said: list[AskedCheck] = []
        self.latest: dict[tuple[AskClass, bool, NodeRecord], PredicateCheck] = {}

    def about(self, ask: AskRecord, node: NodeRecord, *, allocate: bool) -> PredicateCheck | None:
        """The open check about the node as it is now."""
        check = self.latest.get((ask.ask_class, allocate, node))
        return check if check is not None and check.is_about(node) else None

    def close(self, number: int) -> PredicateCheck | None:
        """The check is answered, or will not be."""
        check = self.open.pop(number, None)
        if check is not None:
            for node in check.nodes:
                name = (check.ask_class, check.allocate, node)
                if self.latest.get(name) is check:
                    del self.latest[name]
        return check

    def is_silent_about(self, ask_class: AskClass) -> bool:
        """Whether nodes are passed over for the class because the RM did not answer."""
        return any(c.allocate and c.ask_class == ask_class for c in self.silent.values())

    def next(
        self, app_id: str, ask: AskRecord, nodes: dict[str, NodeRecord], *, allocate: bool
    ) -> PredicateCheck:
        """The next check that the core asked for, which has to be for this ask; it is open now."""
        assert self.said, f"the core should have asked for {app_id} {ask.key}"
        said = self.said.pop(0)
        got = (said.app_id, said.key, said.allocate)
        assert got == (app_id, ask.key, allocate), f"core asks for {got}, not {app_id} {ask.key}"
        unknown = [node_id for node_id in said.nodes if node_id not in nodes]
        assert not unknown, f"core asks about {unknown}, which are no nodes"
        assert len({*said.nodes}) == len(said.nodes), f"core asks twice: {said.nodes}"
        records = [nodes[node_id] for node_id in said.nodes]
        versions = {record: (record.told, record.narrowed) for record in records}
        named = (app_id, ask.key)
        check = self.open[said.check] = PredicateCheck(named, ask.ask_class, allocate, versions)
        for record in records:
            self.latest[ask.ask_class, allocate, record] = check
        return check

    def let_go(self, app_id: str, key: str) -> None:
        """An assumed ask waits no more."""
        for check in self.open.values():
            if (app_id, key) in check.assumed:
                check.assumed.remove((app_id, key))


def check_sense(look: Look, checks: PredicateChecks, ask: AskRecord, said: AskedCheck) -> None:
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
    """An assumed or matched ask is pending again, in its old place."""
    waited = app.pairs.pop(key) if key in app.pairs else app.allocations.pop(key)
    app.add(waited.ask)


def remember(check: PredicateCheck, refused: dict[str, str]) -> None:
    """Keep the results on nodes that are as they were asked about."""
    for node in check.nodes:
        if check.is_about(node):
            node.results[check.ask_class, check.allocate] = refused.get(node.node_id, "")


def forget_silence(check: PredicateCheck) -> None:
    """What the RM never said does not count against the nodes any longer."""
    name = (check.ask_class, check.allocate)
    for node in check.nodes:
        if node.results.get(name) == NO_ANSWER:
            del node.results[name]
