"""The back-off before the next try to connect."""

import random
from collections.abc import Callable

from licorne.options import RetryConfig

SHARE = 0.75
"""The part of a ceiling that a wait may take. With the default ceilings the longest wait is 1.5 s,
which leaves half a second to connect: a server that is back is joined within 2 s."""
LONGEST = 300.0
"""Longest back-off in seconds, also if a server asks for more."""


class Backoff:
    """Exponential back-off with jitter: a random wait below a ceiling that doubles per failure.

    The jitter keeps a thousand clients of one restarted server from coming back together.
    The last ceiling is low, so that a server is joined soon after its return. It is higher while
    the server answers that it has no room: that server is there already.
    """

    def __init__(
        self, retry: RetryConfig, uniform: Callable[[float, float], float] = random.uniform
    ) -> None:
        """Wait as `retry` says. `uniform` draws a number between two others."""
        self._retry = retry
        self._uniform = uniform
        self._ceiling = retry.initial

    def lasted(self, seconds: float) -> None:
        """Note the end of a stream that lasted for `seconds` after its welcome.

        Its welcome has taken the ceiling back to the start, unless the stream was lost too soon.
        Otherwise a server that welcomes and drops its clients would be overrun by them.
        """
        if seconds >= self._retry.stable:
            self.reset()

    def reset(self) -> None:
        """Reset the ceiling, as after a connection that did not fail."""
        self._ceiling = self._retry.initial

    def next(self, *, exhausted: bool = False) -> float:
        """Seconds to wait before the next try. `exhausted` says that the server has no room."""
        maximum = self._retry.maximum
        if exhausted:
            maximum = max(maximum, self._retry.exhausted)
        ceiling = min(maximum, self._ceiling)
        self._ceiling = min(maximum, ceiling * 2)
        return self._uniform(0.0, SHARE * ceiling)

    def told(self, seconds: float) -> float:
        """Seconds to wait if the server has asked for `seconds`: never less, and up to half more.

        More than `LONGEST` is not obeyed, as one changed byte could mean weeks.
        """
        seconds = min(LONGEST, seconds)
        return self._uniform(seconds, 1.5 * seconds)
