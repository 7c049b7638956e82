"""The RM's say in where its asks go (spec § 8.4): what is held, asked, answered and remembered.

How many nodes a question is about is the core's choice; the oracle takes its questions as they
are, after a look whether they make sense.
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
from support.oracle.gates import takes
from support.oracle.order import Look, node_key

NO_ANSWER = "no answer in time"
RETRY_SECONDS = 5.0


@dataclass(eq=False)
class Question:
    """What the RM was asked about which nodes, as they were then, and who waits for its answer."""

    ask_class: AskClass
    allocate: bool
    nodes: list[tuple[NodeRecord, int]]
    held: list[tuple[str, str]] = field(default_factory=list)
    reservations: list[ReservationRecord] = field(default_factory=list)

    def is_about(self, node: NodeRecord) -> bool:
        """Whether it asks about the node as it is now."""
        return (node, node.told) in self.nodes


class Questions:
    """The open questions of a partition, and those that were never answered.

    `said` are the questions that the core put while the present command was handled.
    """

    def __init__(self) -> None:
        """None."""
        self.open: dict[int, Question] = {}
        self.silent: dict[int, Question] = {}
        self.said: list[PredicatesAsked] = []

    def about(self, ask: AskRecord, node: NodeRecord, *, allocate: bool) -> Question | None:
        """The open question about the node as it is now."""
        alike = (ask.ask_class, allocate)
        return next(
            (
                question
                for question in self.open.values()
                if (question.ask_class, question.allocate) == alike and question.is_about(node)
            ),
            None,
        )

    def next(
        self, app_id: str, ask: AskRecord, nodes: dict[str, NodeRecord], *, allocate: bool
    ) -> PredicatesAsked:
        """The next question that the core put, which has to be for this ask; it is open now."""
        assert self.said, f"the core should have asked for {app_id} {ask.key}"
        said = self.said.pop(0)
        got = (said.app_id, said.key, said.allocate)
        assert got == (app_id, ask.key, allocate), f"core asks for {got}, not {app_id} {ask.key}"
        unknown = [node_id for node_id in said.nodes if node_id not in nodes]
        assert not unknown, f"core asks about {unknown}, which are no nodes"
        assert len({*said.nodes}) == len(said.nodes), f"core asks twice: {said.nodes}"
        asked = [(nodes[node_id], nodes[node_id].told) for node_id in said.nodes]
        self.open[said.question] = Question(ask.ask_class, allocate, asked)
        return said

    def let_go(self, app_id: str, key: str) -> None:
        """A held ask waits no more."""
        for question in self.open.values():
            if (app_id, key) in question.held:
                question.held.remove((app_id, key))


def check_sense(look: Look, questions: Questions, ask: AskRecord, said: PredicatesAsked) -> None:
    """The nodes beside the candidate may take the ask, in node order, and nothing is known."""
    further = [look.nodes[node_id] for node_id in said.nodes[1:] if node_id in look.nodes]
    for node in further:
        assert takes(look, node, ask), f"core asks about {node}, where {ask} cannot go"
        known = (ask.ask_class, True) in node.verdicts
        known = known or questions.about(ask, node, allocate=True) is not None
        assert not known, f"core asks about {node} again for {ask}"
    keys = [node_key(look, node) for node in further]
    assert keys == sorted(keys), f"core asks out of order: {said.nodes}"


def put_back(app: AppRecord, key: str) -> None:
    """A held ask is pending again, in its old place."""
    app.add(app.allocations.pop(key).ask)


def remember(question: Question, refused: dict[str, str]) -> None:
    """Keep the verdicts on nodes that are as they were asked about."""
    for node, told in question.nodes:
        if node.told == told:
            node.verdicts[question.ask_class, question.allocate] = refused.get(node.node_id, "")


def forget_silence(question: Question) -> None:
    """What the RM never said is not held against the nodes any longer."""
    name = (question.ask_class, question.allocate)
    for node, _ in question.nodes:
        if node.verdicts.get(name) == NO_ANSWER:
            del node.verdicts[name]
