"""Refusals: reasons of searches without victims, with the operands (spec § 9)."""

from collections import Counter
from collections.abc import Iterator

from licorne_core.model.apps.requests import MAY_GO, Request
from licorne_core.model.queues.queue import Queue
from licorne_core.scheduling.preemption.laws import Comparison, Law, Out, guaranteed, settled
from licorne_core.scheduling.preemption.plans import Refusal
from licorne_core.scheduling.preemption.ranks import seconds_run
from licorne_core.scheduling.preemption.victims import Candidates, Giver
from licorne_core.values.ids import QueuePath

MOST_COUNTED = 2_000
"""Allocations that are looked at to say why they are no candidates."""


def refusal(law: Law, queue: Queue, request: Request) -> Refusal:
    """Return the refusal of an ask; the queue is the one whose guarantee counts for it."""
    names = [name for name, _ in request.ask.ask_class.items]
    return Refusal(
        law=law,
        queue=queue.path,
        requested=request.ask.ask_class.resources,
        settled={name: settled(queue, name) for name in names},
        guaranteed={name: due for name in names if (due := guaranteed(queue, name))},
    )


def why_no_candidates(candidates: Candidates, entitled: Queue, wanted: Request) -> Refusal:
    """Return the refusal of an ask that may trigger: the excluded allocations, and why."""
    why = _Reasons(candidates)
    for leaf in candidates.leaves():
        giver = candidates.giver(leaf)
        if isinstance(giver, Giver):
            why.count(giver)
        else:
            why.out[giver] += 1
            if giver is Out.HIGHER_FENCE:
                # Whatever the priority inside is, the fence's counts.
                why.note_priority(leaf, 0)
    law = Law.NOT_ENOUGH if candidates.found else Law.NO_VICTIMS
    plain = refusal(law, entitled, wanted)
    return plain._replace(out=dict(why.out), spared=why.spared(), until=why.until())


def _running(leaf: Queue) -> Iterator[Request]:
    """Yield the running allocations of the leaf, in any order."""
    for app in leaf.applications.values():
        for request in app.booked():
            if request.state in MAY_GO:
                yield request


class _Reasons:
    """Counts why leaves and allocations are no candidates, and notes when that changes."""

    __slots__ = ("_candidates", "_is_cut_off", "_least", "_left", "_times", "out")

    def __init__(self, candidates: Candidates) -> None:
        """Start empty."""
        self._candidates = candidates
        self._left = MOST_COUNTED
        # True if an allocation that was not looked at may become old enough.
        self._is_cut_off = False
        self.out: Counter[Out] = Counter()
        self._times: list[float] = []
        self._least: dict[QueuePath, Comparison] = {}

    def spared(self) -> tuple[Comparison, ...]:
        """Lowest comparisons of spared candidates, by meeting queue, the lowest first."""
        return tuple(sorted(self._least.values(), key=lambda one: -one.queue.count(".")))

    def note_priority(self, leaf: Queue, priority: int) -> None:
        """An allocation of that priority is spared."""
        found = self._candidates.compared(leaf, priority)
        least = self._least.get(found.queue)
        if least is None or found.other < least.other:
            self._least[found.queue] = found

    def until(self) -> float | None:
        """Time at which the first one counted becomes a candidate; now if others may any moment."""
        first = min(self._times, default=None)
        return self._candidates.now if first is None and self._is_cut_off else first

    def count(self, giver: Giver) -> None:
        """Count the allocations of a leaf that may give, as long as there are not too many."""
        candidates = self._candidates
        minimum = giver.leaf.settings.preemption_minimum_runtime
        if self._left > 0:
            for request in _running(giver.leaf):
                self._left -= 1
                judged = candidates.refusal(request, giver)
                if judged is not None:
                    self.out[judged] += 1
                if judged is Out.HIGHER_PRIORITY:
                    self.note_priority(giver.leaf, request.ask.priority)
                if judged is Out.TOO_YOUNG:
                    self._times.append(
                        candidates.now + minimum - seconds_run(request, candidates.now)
                    )
                if self._left <= 0:
                    break
        self._is_cut_off |= self._left <= 0 and minimum > 0
        until = candidates.next_loss_change(giver.leaf) if giver.may_lose else None
        if until is not None:
            self._times.append(until)
