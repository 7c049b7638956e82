"""How far a benchmark is: what it does now, and how much of that is done.

Whoever works writes it down here, which costs next to nothing; `licorne bench` looks at it a few
times a second where there is a terminal to show it on.
"""

from time import perf_counter


class Progress:
    """What is done now: a piece of work, and the step that it is at."""

    def __init__(self) -> None:
        """Nothing is done yet."""
        self.begin("licorne bench")

    def begin(self, work: str) -> None:
        """Another piece of work; its time runs from now on."""
        self._work = work
        self._start = perf_counter()
        self.step("")

    def step(self, name: str, of: int = 0) -> None:
        """Its next step, which has `of` parts if that is known."""
        self._name, self._of = name, of
        self._done = 0

    def advance(self, by: int = 1) -> None:
        """So many parts of the step more are done."""
        self._done += by

    def __str__(self) -> str:
        """``core, run 1 of 3: placing, 2,000 of 10,000, 7 s``."""
        found = f"{self._done:,}"
        if self._of:
            found = f"{min(self._done, self._of):,} of {self._of:,}"
        parts = [self._name, found if self._of or self._done else ""]
        seconds = f"{perf_counter() - self._start:.0f} s"
        return f"{self._work}: {', '.join(filter(None, [*parts, seconds]))}"


UNSEEN = Progress()
"""For work that nobody watches."""
