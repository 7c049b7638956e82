"""The fake resource manager's answers to checks, and its failures to answer."""

import asyncio
from collections.abc import Callable, Mapping

from licorne import PredicateCheck, PreemptionCheck
from licorne_server.process.clock import Clock, SystemClock
from licorne_server.testing.virtual_clock import VirtualClock

PREDICATE_CLASS = "licorne/predicate-class"
Predicate = Callable[[str, str], str | None]
"""Returns the reason against a node for a class of asks, or None."""
Victims = Callable[[PreemptionCheck], Mapping[str, int]]
"""Returns the nodes that will do for a check, each with the position of its last victim."""


class Judge:
    """Answers checks with two functions, or refuses, delays or waits on request."""

    def __init__(
        self,
        predicate: Predicate | None,
        victims: Victims | None,
        changed: Callable[[], None],
        clock: Clock | None,
    ) -> None:
        """`changed` is called for every check that comes."""
        self.checks: list[PredicateCheck] = []
        """The predicate checks so far."""
        self.preemption_checks: list[PreemptionCheck] = []
        """The preemption checks so far."""
        self.answering = asyncio.Event()
        """Set; while it is cleared the checks wait for their answers."""
        self.answering.set()
        self.refusing = ""
        """The reason for which every node is refused; empty: the functions decide."""
        self.delay = 0.0
        """Seconds by the clock that every answer takes."""
        self._predicate = predicate
        self._victims = victims
        self._changed = changed
        self._clock = clock or SystemClock()

    async def predicates(self, check: PredicateCheck) -> dict[str, str]:
        """The nodes that are refused, each with the reason."""
        self.checks.append(check)
        await self._hesitate()
        if self.refusing:
            return dict.fromkeys(check.nodes, self.refusing)
        predicate = self._predicate
        assert predicate is not None, "nobody is asked without it"
        name = class_of(check)
        return {node: reason for node in check.nodes if (reason := predicate(name, node))}

    async def victims(self, check: PreemptionCheck) -> Mapping[str, int]:
        """The nodes that will do, each with the position of its last victim."""
        self.preemption_checks.append(check)
        await self._hesitate()
        if self.refusing:
            return {}
        assert self._victims is not None, "nobody is asked without it"
        return self._victims(check)

    async def _hesitate(self) -> None:
        self._changed()
        if self.delay:
            await _sleep(self._clock, self.delay)
        await self.answering.wait()


async def _sleep(clock: Clock, seconds: float) -> None:
    if isinstance(clock, VirtualClock):
        await clock.sleep(seconds)
    else:
        await clock.wait(clock.now() + seconds, asyncio.Event())


def class_of(check: PredicateCheck) -> str:
    """The predicate class of the ask that a check is about; empty for none."""
    if check.ask is None:
        return ""
    tags = check.ask.tags.items()
    tag = next((value for name, value in tags if name.lower() == PREDICATE_CLASS), "")
    return check.ask.predicate_class or tag
