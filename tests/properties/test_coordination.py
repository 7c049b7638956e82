"""Members share RMs in random worlds with faulty clocks, networks and stores: no two decide for one RM.

The members run the product's code, each on its own event loop in virtual time.
"""

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from extensions.budgets.mutants import BUDGETS
from mutants.of_members import MEMBERS
from support.coordination.network import Weather
from support.coordination.playing import Action, isolate, play
from support.coordination.rms import Violation
from support.coordination.world import World

ROOT = Path(__file__).resolve().parents[2]
MOST_SEEDS = 400
"""A planted defect must be detected within this number of worlds."""


@dataclass(frozen=True)
class Mistake:
    """A planted defect, with the changes to worlds that make it detectable."""

    name: str
    tune: Callable[[World], None] = lambda world: None
    only: Action | None = None
    first: int = 0
    """Seed of the first world played; for a rare defect, near a world that detects it."""


def _slowly_answered(world: World) -> None:
    world.weather = Weather(lost=0.0, late=0.0, slow=1.0, forgotten=0.0, old=0.0)


def _never_read_again(world: World) -> None:
    world.store.rereads = False


def _short_of_licences(world: World) -> None:
    world.budget.limit = 20


def _blind_to_leases(world: World) -> None:
    world.store.looks_at_leases = False


MISTAKES = (
    Mistake("no-self-stop"),
    Mistake("self-stop-from-the-answer", _slowly_answered, isolate),
    Mistake("comes-back-with-its-books"),
    Mistake("epochs-of-the-store-alone"),
    Mistake("released-before-drained", first=21),
    Mistake("redirects-by-an-old-snapshot", _never_read_again),
    Mistake("takes-from-the-living", _blind_to_leases),
    Mistake("rebalances-without-compare-and-set", _short_of_licences, first=38),
    Mistake("document-shrinks-before-the-core", _short_of_licences, first=89),
)


@pytest.mark.worlds(times=3, size=100)
def test_no_two_members_decide_for_an_rm(part: range) -> None:
    """At any time at most one member decides for an RM, and the epoch of the RM never falls.

    Each epoch has one owner, one RM moves at a time, RMs stay within their budgets, and each RM is served
    again soon after the last fault.
    """
    for seed in part:
        try:
            play(seed)
        except Violation as violation:
            pytest.fail(
                f"{violation}\nOnce more: .venv/bin/python tests/support/coordination {seed}", pytrace=False
            )


@pytest.mark.pure
@pytest.mark.parametrize("mistake", MISTAKES, ids=lambda mistake: mistake.name)
def test_planted_defects_are_found(mistake: Mistake, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of these defects in the protocol of members is detected in one of the worlds."""
    plant(mistake.name, monkeypatch)
    for seed in range(mistake.first, mistake.first + MOST_SEEDS):
        try:
            play(seed, mistake.tune, mistake.only)
        except Violation:
            return
    pytest.fail(f"not found in {MOST_SEEDS} worlds")


def plant(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Replace a method by one with the defect."""
    (defect,) = (defect for defect in (*MEMBERS, *BUDGETS) if defect.name == name)
    path, text = defect.changed(ROOT)
    module = ".".join(path.relative_to(ROOT / "server").with_suffix("").parts)
    changed: dict[str, object] = {"__name__": module}
    exec(compile(text, str(path), "exec"), changed)
    owner, _, method = defect.where.rpartition(":")[2].partition(".")
    monkeypatch.setattr(getattr(importlib.import_module(module), owner), method, vars(changed[owner])[method])
