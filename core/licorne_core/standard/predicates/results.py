"""The RM's answers, stored on the nodes, and its missing answers (spec § 8.4)."""

from collections import Counter
from collections.abc import Mapping

from licorne_core.model.nodes.node import NO_ANSWER, Node
from licorne_core.scheduling.node_search.index import NodeIndex
from licorne_core.standard.predicates.checks import PredicateCheck
from licorne_core.values.asks import AskClass
from licorne_core.values.ids import NodeId
from licorne_core.values.timers import Due, Timer, Timers

SWEEP_RESULTS = 256
"""Number of results on a node at which results of unused classes are dropped."""

MAX_RESULTS = 8192
"""Maximum number of results of a node; the oldest is dropped, and its check may be repeated."""

RETRY_TIME = 5.0
"""Seconds until the RM is asked again about a node without an answer, unless the node changes."""


class PredicateResults:
    """Stores results on the nodes, and keeps checks without an answer until their retry."""

    def __init__(self, index: NodeIndex, timers: Timers[Timer]) -> None:
        """Start without results."""
        self._index = index
        self._timers = timers
        self._unanswered: dict[int, PredicateCheck] = {}
        self._silent: Counter[AskClass] = Counter()

    def is_silent_about(self, ask_class: AskClass) -> bool:
        """True if nodes are skipped for the class because the RM did not answer."""
        return ask_class in self._silent

    def keep(self, check: PredicateCheck, refused: Mapping[NodeId, str]) -> list[Node]:
        """Store the results for nodes that have not changed since the check was opened.

        Returns the nodes that an earlier answer refused, and that the RM accepts now.
        """
        name = (check.ask_class, check.allocate)
        taken_back = []
        for node, versions in check.nodes.items():
            if node.known_version == versions[0]:
                results = node.results
                before = results.pop(name, "")
                if len(results) >= SWEEP_RESULTS:
                    self._sweep(results)
                reason = results[name] = refused.get(node.node_id, "")
                if before and not reason:
                    taken_back.append(node)
                elif reason:
                    self._index.refused(node)
        return taken_back

    def keep_silence(self, check: PredicateCheck, now: float) -> None:
        """Skip the nodes of a check without an answer for `RETRY_TIME`."""
        self.keep(check, {node.node_id: NO_ANSWER for node in check.nodes})
        self._unanswered[check.number] = check
        if check.allocate:
            self._silent[check.ask_class] += 1
        self._timers.set(Timer(Due.RETRY, check=check.number), now + RETRY_TIME)

    def forget_silence(self, number: int) -> list[Node]:
        """Drop the missing answers after `RETRY_TIME`; return the nodes to ask about again."""
        check = self._unanswered.pop(number)
        if check.allocate:
            self._silent[check.ask_class] -= 1
            if not self._silent[check.ask_class]:
                del self._silent[check.ask_class]
        name = (check.ask_class, check.allocate)
        again = [node for node in check.nodes if node.results.get(name) is NO_ANSWER]
        for node in again:
            del node.results[name]
        return again

    def _sweep(self, results: dict[tuple[AskClass, bool], str]) -> None:
        """Make room for another result, at constant amortized cost.

        Results of classes without pending asks are dropped first. A result that stops a pending ask is
        retained: otherwise the RM would be asked repeatedly (spec § 8.4).
        """
        count = len(results)
        # Scan at 256, 512, 1024 and so on, not for every result.
        if count & (count - 1) == 0:
            for known in [known for known in results if not self._index.is_wanted(known[0])]:
                del results[known]
        if len(results) >= MAX_RESULTS:
            del results[next(iter(results))]
