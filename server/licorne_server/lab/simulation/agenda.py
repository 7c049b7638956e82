"""The agenda of a simulated RM: scheduled actions, and actions requested by effects."""

from collections.abc import Callable
from heapq import heappop, heappush
from math import inf

Action = Callable[[], object]


class Agenda:
    """Actions in order of time; actions of equal times in the order of their insertion."""

    def __init__(self) -> None:
        """Start without actions."""
        self._timed: list[tuple[float, int, Action]] = []
        self._serial = 0
        self._soon: list[Action] = []

    @property
    def due(self) -> float:
        """Time of the next action; infinite if there is none."""
        return self._timed[0][0] if self._timed else inf

    def at(self, time: float, action: Action) -> None:
        """Schedule an action at a time in unix seconds."""
        self._serial += 1
        heappush(self._timed, (time, self._serial, action))

    def soon(self, action: Action) -> None:
        """Schedule an action for the moment when the current effects have been processed."""
        self._soon.append(action)

    def act(self) -> None:
        """Run the actions of `soon`, including those that they add."""
        while self._soon:
            soon, self._soon = self._soon, []
            for action in soon:
                action()

    def act_until(self, time: float) -> None:
        """Run the actions due by a time, including those that they add."""
        while self.due <= time:
            heappop(self._timed)[2]()
            self.act()
