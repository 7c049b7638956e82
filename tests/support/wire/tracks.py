"""What may be the case on the other side, judged by what was said and heard alone.

The RM cannot know what the server has dealt with already, so a track keeps every possible *world*:
a state, and how many of the things said were dealt with. Each answer leaves only the worlds
that it fits; when none is left, the answer is one that must not be. Once everything was dealt
with and heard, one state is left, and the server's books must show just that.
"""

from abc import abstractmethod
from collections.abc import Iterable, Iterator
from itertools import permutations
from typing import Generic, NamedTuple, TypeVar

S = TypeVar("S")
"""A state; None where there is no such thing."""
T = TypeVar("T")
"""A thing said."""
A = TypeVar("A")
"""An answer."""


class Violation(AssertionError):
    """Something was heard, or is in the books, that must not be."""


class Said(NamedTuple, Generic[T]):
    """Something said; `doubtful` if it was under way when its stream broke."""

    item: T
    doubtful: bool


class Track(Generic[S, T, A]):
    """The worlds of one node, application or key."""

    def __init__(self, name: str, start: S) -> None:
        """In a state that is certain."""
        self.name = name
        self.start = start
        self.said: list[Said[T]] = []
        self.heard: list[A] = []
        self._worlds: dict[tuple[S, int], None] = {(start, 0): None}

    @abstractmethod
    def after(self, state: S, item: T | None, answer: A | None) -> Iterable[S]:
        """The states after an item was dealt with while an answer was given.

        None for the item: of the server's own accord. None for the answer: silently.
        """

    @abstractmethod
    def taken(self, state: S, item: T) -> S:
        """The state after an item that was taken, whatever was said of it."""

    def say(self, item: T) -> None:
        """Something is sent."""
        self.said.append(Said(item, doubtful=False))

    def doubt(self, item: T) -> None:
        """The last of these may never have arrived."""
        for position in range(len(self.said) - 1, -1, -1):
            if self.said[position] == (item, False):
                self.said[position] = Said(item, doubtful=True)
                return

    def hear(self, *answers: A) -> None:
        """Answers of which the order is not known."""
        reached: dict[tuple[S, int], None] = {}
        for order in permutations(answers):
            worlds: Iterable[tuple[S, int]] = self._worlds
            for answer in order:
                worlds = self._answered(worlds, answer)
            reached |= dict.fromkeys(worlds)
        if not reached:
            told = " and ".join(map(repr, answers))
            raise Violation(f"{self.name}: {told} must not be\n{self.story()}")
        self.heard += answers
        self._worlds = reached

    def _answered(self, worlds: Iterable[tuple[S, int]], answer: A) -> list[tuple[S, int]]:
        return [
            world for state, dealt in self._silently(worlds) for world in self._steps(state, dealt, answer)
        ]

    def _silently(self, worlds: Iterable[tuple[S, int]]) -> dict[tuple[S, int], None]:
        """The worlds with those that come of them without a word."""
        known = dict.fromkeys(worlds)
        waiting = list(known)
        while waiting:
            for world in self._steps(*waiting.pop(), None):
                if world not in known:
                    known[world] = None
                    waiting.append(world)
        return known

    def _steps(self, state: S, dealt: int, answer: A | None) -> Iterator[tuple[S, int]]:
        for after in self.after(state, None, answer):
            yield after, dealt
        if dealt < len(self.said):
            item, doubtful = self.said[dealt]
            for after in self.after(state, item, answer):
                yield after, dealt + 1
            if doubtful and answer is None:
                yield state, dealt + 1

    def possible(self) -> dict[S, None]:
        """All states that it may have been in since things were certain."""
        states = {self.start: None}
        for item, _ in self.said:
            states |= dict.fromkeys([self.taken(state, item) for state in states])
        return states

    def may_stand(self) -> bool:
        """Whether the thing may be there as far as was heard."""
        return any(state is not None for state, _ in self._silently(self._worlds))

    def guess(self) -> S:
        """What an RM would believe: a world in which as much as can be was dealt with."""
        worlds = self._silently(self._worlds)
        return max(worlds, key=lambda world: world[1])[0]

    def settle(self, booked: S) -> None:
        """Everything was dealt with and heard, and this is in the books."""
        worlds = self._silently(self._worlds)
        ends = {state for state, dealt in worlds if dealt == len(self.said)}
        if not ends:
            raise Violation(f"{self.name}: an answer is missing\n{self.story()}")
        if booked not in ends:
            raise Violation(f"{self.name}: the books have {booked}\n{self.story()}")
        self.restart(booked)

    def restart(self, state: S) -> None:
        """It is in this state for certain."""
        self.start = state
        self.said.clear()
        self.heard.clear()
        self._worlds = {(state, 0): None}

    @property
    def is_certain(self) -> bool:
        """Whether nothing was said and heard since things were certain."""
        return not self.said and not self.heard

    def story(self) -> str:
        """What is known, for a failure."""
        said = [f"{item!r}{' (may be lost)' if doubtful else ''}" for item, doubtful in self.said]
        ends = sorted({f"{state} after {dealt}" for state, dealt in self._silently(self._worlds)})
        return f"  was {self.start}\n  said {said}\n  heard {self.heard}\n  may be {ends}"
