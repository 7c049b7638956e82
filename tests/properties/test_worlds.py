"""The contents of random worlds, and the defects that are detected in them."""

from collections.abc import Callable

import pytest

from licorne_core.config.schema import AppSortPolicy, NodeSortType
from licorne_core.ledger.reserving import Reservations
from licorne_core.messages.commands import UpdateAllocations
from licorne_core.model.apps.gang import Gang
from licorne_core.scheduling import order
from licorne_core.scheduling.node_search.index import NodeIndex
from licorne_core.standard.predicates.results import PredicateResults
from licorne_core.values.errors import InvariantBroken
from support.worlds import Disagreement, World, compare, shrink

Slip = Callable[[pytest.MonkeyPatch], None]


def test_equal_seeds_draw_equal_worlds() -> None:
    """A seed always draws the same script; another seed draws a different script."""
    assert repr(World(1).steps) == repr(World(1).steps)
    assert repr(World(1).steps) != repr(World(2).steps)


@pytest.mark.slow
def test_worlds_have_every_sort_policy() -> None:
    """Worlds have all sort policies, ageing and opening hours, so that the oracle has to implement these."""
    drawn = repr([World(seed, 1).steps for seed in range(100)])
    words = [policy.value for policies in (NodeSortType, AppSortPolicy) for policy in policies]
    words += ["ageing", "stateaware", "opening.hours"]
    assert [word for word in words if f'"{word}"' not in drawn] == []


@pytest.mark.slow
@pytest.mark.parametrize(
    "slip",
    [
        lambda patch: patch.setattr(NodeIndex, "improved", lambda index, node: index.took(node) or []),
        lambda patch: patch.setattr("licorne_core.scheduling.waiting.dirty.quotients", lambda *_: []),
        lambda patch: patch.setattr(order, "fair_usage", lambda app, leaf: []),
        lambda patch: patch.setattr("licorne_core.scheduling.checks.first_exceeded", lambda *_: None),
        lambda patch: patch.setattr("licorne_core.model.limits.group_of", lambda *_: ""),
        lambda patch: patch.setattr(
            "licorne_core.extensions.back_off.extension.backs_off", lambda *_, **__: False
        ),
        lambda patch: patch.setattr("licorne_core.model.apps.groups.RESERVATION_AGE", 5.0),
        lambda patch: patch.setattr(Reservations, "give_way", lambda *_: None),
        lambda patch: patch.setattr(PredicateResults, "keep", lambda *_: []),
        lambda patch: patch.setattr("licorne_core.standard.placeholders.search.is_covered", lambda *_: True),
        lambda patch: patch.setattr(Gang, "open_group", lambda *_, **__: None),
        lambda patch: patch.setattr(Gang, "is_complete", lambda *_: True),
    ],
    ids=[
        "no news of nodes",
        "no shares",
        "no fairness",
        "no maxima",
        "no groups",
        "no back-off",
        "late reservations",
        "nobody gives way",
        "no results",
        "too small placeholders",
        "nobody waits for placeholders",
        "half a gang runs",
    ],
)
@pytest.mark.pure
def test_a_wrong_decision_is_detected(slip: Slip, monkeypatch: pytest.MonkeyPatch) -> None:
    """A core that differs from the oracle is detected within a hundred worlds."""
    slip(monkeypatch)
    with pytest.raises((Disagreement, InvariantBroken)):
        play_a_hundred()


def play_a_hundred() -> None:
    """Compare core and oracle in a hundred worlds, and recount the books of the core."""
    for seed in range(100):
        compare(World(seed).steps)


def test_a_failing_script_is_reduced() -> None:
    """A script that fails because of one ask is reduced to a single step with only that ask."""
    world = World(3)
    wanted = next(
        step.command.asks[-1]
        for step in world.steps
        if isinstance(step.command, UpdateAllocations) and len(step.command.asks) > 1
    )
    small = shrink(
        world.steps,
        lambda script: any(
            isinstance(step.command, UpdateAllocations) and wanted in step.command.asks for step in script
        ),
    )
    (step,) = small
    assert isinstance(step.command, UpdateAllocations)
    assert list(step.command.asks) == [wanted]
    assert not step.command.releases
