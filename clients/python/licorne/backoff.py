"""How long to wait before the next try to connect."""

import random
from collections.abc import Callable


class Backoff:
    """Full-jitter exponential backoff: a random wait below a ceiling that doubles per failure.

    The jitter keeps a thousand clients of one restarted server from coming back together.
    A connection that lasted for `stable` seconds takes the ceiling back to the start. A shorter
    one counts as a failure, so that a server that drops its clients is not overrun by them.
    """

    def __init__(
        self,
        *,
        initial: float = 0.1,
        maximum: float = 30.0,
        stable: float = 60.0,
        uniform: Callable[[float, float], float] = random.uniform,
    ) -> None:
        """Take the first and the last ceiling and the stable time, all in seconds."""
        self._initial = initial
        self._maximum = maximum
        self._stable = stable
        self._uniform = uniform
        self._ceiling = initial

    def lasted(self, seconds: float) -> None:
        """Note that a connection has ended that lasted for `seconds`."""
        if seconds >= self._stable:
            self.reset()

    def reset(self) -> None:
        """Take the ceiling back to the start, as after a connection that did not fail."""
        self._ceiling = self._initial

    def next(self) -> float:
        """Seconds to wait before the next try."""
        wait = self._uniform(0.0, self._ceiling)
        self._ceiling = min(self._maximum, self._ceiling * 2)
        return wait
