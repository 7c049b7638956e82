"""Shortcuts change nothing where there are rules that the oracle does not know.

Limits, back-offs, state-aware leaves and maximum numbers of applications: without shortcuts
every decision looks at every ask and node anew, and that is the plain way that must be matched.
"""

import pytest

from licorne_core.handlers import turn
from licorne_core.tuning import Tuning
from support.worlds import World, play

PLAIN = Tuning(node_index=False, parking=False)


def test_shortcuts_change_no_effect(worlds: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """All effects are the same with all shortcuts on and off.

    Turns are not cut short here: where a turn ends decides which applications rest, and only
    with shortcuts is there an end before the last ask.
    """
    monkeypatch.setattr(turn, "TRIES", 1_000_000)
    for seed in range(7_000_000, 7_000_000 + worlds // 8):
        script = World(seed, 60, rules=True).steps
        assert play(script, Tuning()) == play(script, PLAIN), f"world {seed}"
