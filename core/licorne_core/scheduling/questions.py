"""Questions to the RM: which nodes its asks may go to (spec § 8.4).

A pass never waits for an answer. What is to be allocated meanwhile is *held*: booked, so that
nobody else gets the room, and told to the RM only when it has agreed to the node.
"""

from collections.abc import Container, Iterable, Mapping
from typing import NamedTuple

from licorne_core.apps.application import Application
from licorne_core.apps.runs import Run
from licorne_core.asks import Ask, AskClass
from licorne_core.effects import PredicatesAsked
from licorne_core.ids import AllocationKey, AppId, NodeId, PartitionName, rm_of
from licorne_core.nodes.node import Node
from licorne_core.reservations import Reservation
from licorne_core.scheduling.candidates import NodeIndex
from licorne_core.shared import Shared
from licorne_core.timers import TimerName, Timers

BATCH = 100
"""Nodes in a question at the most: where the ask would go, and what comes next."""

SPARE = 8
"""Nodes beyond one for each ask that a question is about; twice as many after each refusal."""

ENOUGH = 8
"""Refusals after which it is as many as may be."""

MAX_HELD = 1024
"""Asks of a partition that may wait for answers at a time; more are not looked at meanwhile."""

MAX_UNHEARD = 8
"""The same for an RM whose silence counts as refusal, from then on until it answers something."""

SWEEP_VERDICTS = 256
"""Verdicts that a node may have before those of classes that nobody asks for are forgotten."""

MAX_VERDICTS = 8192
"""Verdicts that are remembered for a node; the oldest gives way, and may be asked for again."""

NO_ANSWER = "no answer in time"
"""The reason of a refusal that the RM never spoke."""

RETRY_TIME = 5.0
"""Seconds for which a node that got no answer is not asked about again, unless it changes."""

ANSWER = "answer"
RETRY = "retry"


class Held(NamedTuple):
    """An ask that waits for an answer, and the node that it is booked on.

    `told`: the RM knows already that no node took the ask (spec § 8.12).
    """

    app: Application
    key: AllocationKey
    node: Node
    told: bool


class Question:
    """One question, and who waits for its answer. `nodes` are asked about as the RM knew them."""

    __slots__ = ("allocate", "ask_class", "held", "nodes", "number", "reservations")

    def __init__(
        self, number: int, ask_class: AskClass, nodes: Iterable[Node], *, allocate: bool
    ) -> None:
        """Nobody waits yet."""
        self.number = number
        self.ask_class = ask_class
        self.allocate = allocate
        self.nodes: dict[Node, int] = {node: node.told for node in nodes}
        self.held: dict[tuple[AppId, AllocationKey], Held] = {}
        self.reservations: list[Reservation] = []

    def is_about(self, node: Node) -> bool:
        """Whether it asks about the node as the RM knows it now."""
        return self.nodes.get(node) == node.told


class Questions:
    """The open questions of one partition, and the asks that wait for them."""

    __slots__ = (
        "_asked",
        "_held",
        "_index",
        "_open",
        "_partition",
        "_shared",
        "_silent",
        "_timers",
        "_unheard",
        "_unsent",
    )

    def __init__(
        self,
        partition: PartitionName,
        shared: Shared,
        index: NodeIndex,
        timers: Timers[TimerName],
    ) -> None:
        """None are open."""
        self._partition = partition
        self._shared = shared
        self._index = index
        self._timers = timers
        self._open: dict[int, Question] = {}
        self._asked: dict[tuple[AskClass, bool, Node], Question] = {}
        self._held: dict[tuple[AppId, AllocationKey], Question] = {}
        self._silent: dict[int, Question] = {}
        self._unsent: list[PredicatesAsked] = []
        self._unheard = False

    @property
    def waiting(self) -> int:
        """Asks that wait for answers."""
        return len(self._held)

    @property
    def most(self) -> int:
        """Asks that may wait for answers at a time."""
        return MAX_UNHEARD if self._unheard else MAX_HELD

    @property
    def full(self) -> bool:
        """Whether so many asks wait for answers that no more should."""
        return len(self._held) >= (MAX_UNHEARD if self._unheard else MAX_HELD)

    def needs(self, ask_class: AskClass, node: Node, *, allocate: bool = True) -> bool:
        """Whether the RM has to be asked before an ask of the class may go to the node."""
        return (
            self._shared.predicates is not None
            and ask_class.predicate is not None
            and (ask_class, allocate) not in node.verdicts
        )

    def ask(self, run: Run, ask: Ask, node: Node, now: float) -> Question:
        """The question whose answer tells whether an ask of the run may go to the node as it is."""
        question = self._about(run.ask_class, node, allocate=True)
        if question is not None:
            return question
        spare = SPARE << min(run.refusals, ENOUGH)
        ahead = self._ahead(run.ask_class, node, min(BATCH, run.waiting + spare))
        return self._put(ask, [node, *ahead], now, allocate=True)

    def ask_to_reserve(self, ask: Ask, node: Node, now: float) -> Question:
        """The question whose answer tells whether the node may be reserved for the ask."""
        question = self._about(ask.ask_class, node, allocate=False)
        return question or self._put(ask, [node], now, allocate=False)

    def ask_again(self, waiting: Iterable[Held], now: float) -> None:
        """What waits for nodes that are not as they were asked about waits for another answer.

        One more question does for all of them, which are of one class.
        """
        waiting = [self.let_go(held.app.app_id, held.key) for held in waiting]
        asks = [held.app.allocations[held.key].ask for held in waiting]
        nodes: dict[Node, Ask] = {}
        for ask, held in zip(asks, waiting, strict=True):
            if self._about(ask.ask_class, held.node, allocate=True) is None:
                nodes.setdefault(held.node, ask)
        if nodes:
            self._put(next(iter(nodes.values())), nodes, now, allocate=True)
        for ask, held in zip(asks, waiting, strict=True):
            question = self._about(ask.ask_class, held.node, allocate=True)
            assert question is not None, f"{held.node.node_id} was asked about just now"
            self.hold(question, held)

    def _about(self, ask_class: AskClass, node: Node, *, allocate: bool) -> Question | None:
        """The open question about the node as it is now."""
        question = self._asked.get((ask_class, allocate, node))
        return question if question is not None and question.is_about(node) else None

    def _put(self, ask: Ask, nodes: Iterable[Node], now: float, *, allocate: bool) -> Question:
        policy = self._shared.predicates
        assert policy is not None, "an RM that has no predicates is not asked"
        number, deadline = self._shared.next_question(), now + policy.deadline
        question = Question(number, ask.ask_class, nodes, allocate=allocate)
        self._open[number] = question
        for node in question.nodes:
            self._asked[ask.ask_class, allocate, node] = question
        self._timers.set(_name(ANSWER, number), deadline)
        self._unsent.append(
            PredicatesAsked(
                rm_id=rm_of(self._partition),
                partition=self._partition,
                question=number,
                app_id=ask.app_id,
                key=ask.key,
                allocate=allocate,
                nodes=[node.node_id for node in question.nodes],
                deadline=deadline,
            )
        )
        return question

    def hold(self, question: Question, held: Held) -> None:
        """An ask waits for the answer, booked on its node."""
        name = (held.app.app_id, held.key)
        question.held[name] = held
        self._held[name] = question

    def let_go(self, app_id: AppId, key: AllocationKey) -> Held:
        """An ask waits no more."""
        return self._held.pop((app_id, key)).held.pop((app_id, key))

    def is_waiting(self, app_id: AppId, key: AllocationKey) -> bool:
        """Whether the ask waits for an answer that has a deadline."""
        question = self._held.get((app_id, key))
        return question is not None and _name(ANSWER, question.number) in self._timers

    def close(self, number: int) -> Question | None:
        """The question is answered, or will not be; None if it is not open."""
        question = self._open.pop(number, None)
        if question is not None:
            self._timers.cancel(_name(ANSWER, number))
            for node in question.nodes:
                name = (question.ask_class, question.allocate, node)
                if self._asked.get(name) is question:
                    del self._asked[name]
        return question

    def remember(
        self,
        question: Question,
        refused: Mapping[NodeId, str],
        wanted: Container[AskClass],
    ) -> list[Node]:
        """Keep the verdicts on nodes that are still as they were asked about.

        Where there are many, those go first whose classes are not `wanted` any more: as long as an
        ask waits, what stops it is not forgotten, or it would be asked about for ever (§ 8.4).
        Returns those that the RM refused before, in an answer to another question, and accepts now.
        """
        name = (question.ask_class, question.allocate)
        taken_back = []
        for node, told in question.nodes.items():
            if node.told == told:
                verdicts = node.verdicts
                before = verdicts.pop(name, "")
                if len(verdicts) >= SWEEP_VERDICTS:
                    _sweep(verdicts, wanted)
                reason = verdicts[name] = refused.get(node.node_id, "")
                if before and not reason:
                    taken_back.append(node)
        return taken_back

    def hear(self) -> None:
        """The RM has answered a question that was open."""
        self._unheard = False

    def remember_silence(self, question: Question, now: float) -> None:
        """The refusals that nobody spoke are to be forgotten after a while; less is asked now."""
        self._unheard = True
        self._silent[question.number] = question
        self._timers.set(_name(RETRY, question.number), now + RETRY_TIME)

    def forget_silence(self, number: int) -> list[Node]:
        """Forget them now; the nodes that may be asked about again."""
        question = self._silent.pop(number)
        name = (question.ask_class, question.allocate)
        again = [node for node in question.nodes if node.verdicts.get(name) == NO_ANSWER]
        for node in again:
            del node.verdicts[name]
        return again

    def take_unsent(self) -> list[PredicatesAsked]:
        """The questions that the RM was not told yet."""
        unsent = self._unsent
        if unsent:
            self._unsent = []
        return unsent

    def _ahead(self, ask_class: AskClass, candidate: Node, count: int) -> list[Node]:
        """The nodes that come next for the class, as far as nothing is known of them yet."""
        return [
            node
            for node in self._index.ahead(ask_class, count)
            if node is not candidate
            and (ask_class, True) not in node.verdicts
            and self._about(ask_class, node, allocate=True) is None
        ]


def _sweep(verdicts: dict[tuple[AskClass, bool], str], wanted: Container[AskClass]) -> None:
    """Make room for another verdict, at the cost of a few for each that was remembered."""
    count = len(verdicts)
    # At 256, 512, 1024 and so on: what all asks for is not gone through for every verdict.
    if count & (count - 1) == 0:
        for known in [known for known in verdicts if known[0] not in wanted]:
            del verdicts[known]
    if len(verdicts) >= MAX_VERDICTS:
        del verdicts[next(iter(verdicts))]


def _name(what: str, number: int) -> TimerName:
    return (what, AppId(str(number)), AllocationKey(""))
