"""What the RM said of nodes: the results of predicate checks (spec § 8.4).

The result for a class belongs to the node as the RM knows it. It is forgotten with every change
that the RM hears of, and not with what is only assumed there: otherwise two classes that are
refused on one node would void each other's results for ever.
"""

from collections.abc import Mapping

from licorne_core.asks import AskClass
from licorne_core.ids import NodeId
from licorne_core.nodes.node import Node
from licorne_core.scheduling.candidates import NodeIndex
from licorne_core.scheduling.predicate_checks import PredicateCheck
from licorne_core.timers import Due, Timer, Timers

SWEEP_RESULTS = 256
"""Results that a node may have before those of classes that nobody asks for are forgotten."""

MAX_RESULTS = 8192
"""Results that are kept for a node; the oldest gives way, and may be asked for again."""

NO_ANSWER = "no answer in time"
"""The reason of a refusal that the RM never spoke."""

RETRY_TIME = 5.0
"""Seconds for which a node that got no answer is not asked about again, unless it changes."""


class PredicateResults:
    """Keeps results on the nodes, and the checks whose silence counts as refusal for a while."""

    __slots__ = ("_index", "_timers", "_unanswered")

    def __init__(self, index: NodeIndex, timers: Timers[Timer]) -> None:
        """Nothing was said."""
        self._index = index
        self._timers = timers
        self._unanswered: dict[int, PredicateCheck] = {}

    def keep(self, check: PredicateCheck, refused: Mapping[NodeId, str]) -> list[Node]:
        """Keep the results for nodes that are still as they were asked about.

        Returns those that the RM refused before, in another answer, and accepts now.
        """
        name = (check.ask_class, check.allocate)
        taken_back = []
        for node, version in check.nodes.items():
            if node.known_version == version:
                results = node.results
                before = results.pop(name, "")
                if len(results) >= SWEEP_RESULTS:
                    self._sweep(results)
                reason = results[name] = refused.get(node.node_id, "")
                if before and not reason:
                    taken_back.append(node)
        return taken_back

    def keep_silence(self, check: PredicateCheck, now: float) -> None:
        """The RM did not answer: its nodes count as refused for a while."""
        self.keep(check, {node.node_id: NO_ANSWER for node in check.nodes})
        self._unanswered[check.number] = check
        self._timers.set(Timer(Due.RETRY, check=check.number), now + RETRY_TIME)

    def forget_silence(self, number: int) -> list[Node]:
        """The while is over; the nodes that may be asked about again."""
        check = self._unanswered.pop(number)
        name = (check.ask_class, check.allocate)
        again = [node for node in check.nodes if node.results.get(name) == NO_ANSWER]
        for node in again:
            del node.results[name]
        return again

    def _sweep(self, results: dict[tuple[AskClass, bool], str]) -> None:
        """Make room for another result, at the cost of a few for each that was kept.

        Results of classes that nobody asks for go first. A result that stops an ask which waits is
        kept, or it would be asked about for ever (spec § 8.4).
        """
        count = len(results)
        # At 256, 512, 1024 and so on: not all are gone through for every result.
        if count & (count - 1) == 0:
            for known in [known for known in results if not self._index.is_wanted(known[0])]:
                del results[known]
        if len(results) >= MAX_RESULTS:
            del results[next(iter(results))]


def note_known_change(node: Node) -> bool:
    """The RM knows of a change of the node; whether it had refused anything there as it was."""
    node.known_version += 1
    results = node.results
    if not results:
        return False
    refused = any(results.values())
    results.clear()
    return refused
