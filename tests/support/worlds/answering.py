"""How the RMs of a world answer checks of nodes and of victims: at once, later or not at all.

What an RM thinks follows from the check alone, and from how often it was asked, so that a
script that was cut short is answered as before.
"""

from collections.abc import Iterable
from zlib import crc32

from licorne_core.messages.commands import (
    AnswerPredicates,
    AnswerPreemptions,
    Command,
    NodeRefusal,
    PredicateAnswer,
    PreemptionAnswer,
)
from licorne_core.messages.effects import (
    AskedCheck,
    AskedNode,
    AskedPreemption,
    Effect,
    PredicatesAsked,
    PreemptionsAsked,
)
from licorne_core.scheduler import Scheduler
from licorne_core.values.ids import RmId

REASONS = ("taint", "affinity", "volume")
DELAYS = (0, 0, 0, 0, 1, 1, 2, 5, None, None)
"""Steps until an answer is given, None for never."""


class Answers:
    """The answers that are still to be given, and how many more steps they take."""

    def __init__(self, scheduler: Scheduler) -> None:
        """Nobody was asked yet; what the RM goes by is known of the core's asks."""
        self._scheduler = scheduler
        self._pending: list[tuple[int, RmId, PredicateAnswer | PreemptionAnswer]] = []
        self._asked: dict[str, int] = {}

    def hear(self, effects: Iterable[Effect]) -> None:
        """Think about the checks among the effects; asks of one opinion are judged alike."""
        for effect in effects:
            if isinstance(effect, PredicatesAsked):
                for check in effect.checks:
                    self._consider(effect, check)
            elif isinstance(effect, PreemptionsAsked):
                for question in effect.checks:
                    self._weigh(effect.rm_id, question)

    def due(self) -> list[Command]:
        """A step has passed: what is answered now, each RM's answers together."""
        nodes: dict[RmId, list[PredicateAnswer]] = {}
        victims: dict[RmId, list[PreemptionAnswer]] = {}
        for steps, rm_id, answer in self._pending:
            if steps <= 0 and isinstance(answer, PredicateAnswer):
                nodes.setdefault(rm_id, []).append(answer)
            elif steps <= 0 and isinstance(answer, PreemptionAnswer):
                victims.setdefault(rm_id, []).append(answer)
        self._pending = [(steps - 1, rm_id, answer) for steps, rm_id, answer in self._pending if steps > 0]
        due: list[Command] = [AnswerPredicates(rm_id=rm_id, answers=a) for rm_id, a in nodes.items()]
        return due + [AnswerPreemptions(rm_id=rm_id, answers=a) for rm_id, a in victims.items()]

    def _consider(self, asked: PredicatesAsked, check: AskedCheck) -> None:
        opinion = f"{asked.rm_id} {self._opinion(asked, check)}"
        refused = [
            NodeRefusal(node_id=node_id, reason=REASONS[judged % len(REASONS)])
            for node_id in check.nodes
            for judged in [self._judge(f"{opinion} {node_id} {check.allocate}")]
            if judged % 5 < (2 if check.allocate else 3)
        ]
        patience = self._judge(f"{asked.rm_id} {check.key} {check.nodes[0]}")
        delay = DELAYS[patience % len(DELAYS)]
        if delay is not None:
            answer = PredicateAnswer(check.check, refused)
            self._pending.append((delay, asked.rm_id, answer))

    def _weigh(self, rm_id: RmId, question: AskedPreemption) -> None:
        """Think about victims: some nodes are refused, on others more have to go."""
        opinion = f"{rm_id} {question.app_id} {question.key}"
        needed = {
            node.node_id: upto
            for node in question.nodes
            if (upto := self._last(f"{opinion} {node.node_id}", node)) is not None
        }
        delay = DELAYS[self._judge(f"{opinion} victims") % len(DELAYS)]
        if delay is not None:
            self._pending.append((delay, rm_id, PreemptionAnswer(question.check, needed)))

    def _last(self, what: str, node: AskedNode) -> int | None:
        """The last victim that has to go on the node; None where nobody's end helps."""
        mood = self._judge(what) % 8
        if mood < 2:
            return None
        return node.start + (0 if mood < 6 else mood - 5)

    def _opinion(self, asked: PredicatesAsked, check: AskedCheck) -> str | None:
        partition = self._scheduler.partitions.get(asked.partition)
        app = partition.applications.get(check.app_id) if partition else None
        if app is None:
            return None
        request = app.requests.get(check.key)
        return request.ask.ask_class.predicate if request else None

    def _judge(self, what: str) -> int:
        """A number that depends on what is judged, and on how often it was before."""
        times = self._asked[what] = self._asked.get(what, 0) + 1
        return crc32(f"{what} {times}".encode()) >> 8
