"""The core decides what the plain sequential scheduler decides, in the same order."""

from collections.abc import Callable, Sequence
from functools import partial

import pytest

from licorne_core.tuning import Tuning
from support.worlds import Step, World, compare, shown, shrink

Play = Callable[[Sequence[Step]], int]

LONG = 400
"""Steps of the few long worlds, in which heaps are compacted and logs are caught up with."""


def agree(worlds: range, play: Play = compare, length: int = 50) -> None:
    """Play the worlds; the first on which core and oracle differ is narrowed down and shown."""
    decisions = 0
    for seed in worlds:
        script = World(seed, length).steps
        try:
            decisions += play(script)
        except Exception as error:
            pytest.fail(f"world {seed}: {error}\n\n{narrowed(script, play, error)}", pytrace=False)
    assert decisions > 5 * len(worlds), f"the worlds are too quiet: {decisions} decisions"


def narrowed(script: Sequence[Step], play: Play, error: Exception) -> str:
    """The shortest script found that fails in the same way, one step a line."""

    def fails(candidate: Sequence[Step]) -> bool:
        try:
            play(candidate)
        except Exception as other:
            return type(other) is type(error)
        return False

    return shown(shrink(script, fails))


def test_decides_as_the_oracle_does(worlds: int) -> None:
    """Core and oracle make the same decisions, and keep the same books, in every random world."""
    agree(range(worlds))


@pytest.mark.parametrize(
    "tuning",
    [Tuning(node_index=False), Tuning(parking=False), Tuning(node_index=False, parking=False)],
    ids=["no node index", "no parking", "neither"],
)
def test_no_shortcut_changes_a_decision(worlds: int, tuning: Tuning) -> None:
    """With a shortcut switched off the decisions are still the oracle's."""
    agree(range(1_000_000, 1_000_000 + worlds // 10), partial(compare, tuning=tuning))


def test_decides_as_the_oracle_does_without_reservations(worlds: int) -> None:
    """Switched off, reservations change no decision, and asks that require a node wait for it."""
    agree(range(1_500_000, 1_500_000 + worlds // 10), partial(compare, reserving=False))


def test_decides_as_the_oracle_does_in_long_worlds(worlds: int) -> None:
    """The same over eight times as many steps, where nothing that is kept may go stale."""
    agree(range(2_000_000, 2_000_000 + worlds // 100), length=LONG)
