"""One queue: maximum, headroom, fair maximum, share, and priority (spec §§ 4.5-4.11)."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from licorne_core.config.schema import QueueSettings
from licorne_core.model.queues.queue import (
    Queue,
    current_share,
    denominators,
    fair_max,
    guaranteed_in_force,
    headroom,
    max_in_force,
    quotients,
)
from licorne_core.values.ranking import INT32_MAX, INT32_MIN, NO_PRIORITY
from licorne_core.values.resources import Resources
from support.core.trees import queue_at, tree_of

TYPES = ("memory", "vcore", "gpu")
sizes = st.dictionaries(st.sampled_from(TYPES), st.integers(0, 20), max_size=3)
maxima = st.none() | sizes.map(max_in_force)


def line(*levels: tuple[Resources | None, Resources]) -> Queue:
    """The leaf of a chain of queues; each level, from root down, has this maximum and usage."""
    queue: Queue | None = None
    for depth, (limit, allocated) in enumerate(levels):
        queue = Queue(f"q{depth}", queue, is_leaf=depth == len(levels) - 1, managed=True)
        queue.max = limit
        queue.allocated = dict(allocated)
    assert queue is not None
    return queue


@pytest.mark.row(34)
@pytest.mark.parametrize("size", [None, {}])
def test_an_empty_maximum_limits_nothing(size: Resources | None) -> None:
    """A maximum that is unset or empty limits nothing."""
    assert max_in_force(size) is None


@pytest.mark.row(33)
def test_a_maximum_of_zeros_is_in_force() -> None:
    """A maximum of only zeros forbids its types, and does not limit other types."""
    assert max_in_force({"memory": 0, "gpu": 0}) == {"memory": 0, "gpu": 0}


@pytest.mark.parametrize("size", [None, {}, {"memory": 0}, {"memory": 0, "gpu": 0}])
def test_a_guarantee_of_zeros_is_none(size: Resources | None) -> None:
    """A guarantee that is unset, empty or has only zeros counts as none."""
    assert guaranteed_in_force(size) is None


@pytest.mark.row(33)
def test_a_zero_with_other_amounts_is_in_force() -> None:
    """A zero in a maximum that has amounts of other types forbids its own type."""
    tree = tree_of("- {name: a, resources: {max: {memory: 10, gpu: 0}}}")
    tree.root.max = {"memory": 100, "gpu": 8}
    assert headroom(queue_at(tree, "root.a")) == {"memory": 10, "gpu": 0}


@pytest.mark.row(34)
def test_a_type_without_a_maximum_is_bounded_by_the_ancestors() -> None:
    """A type that is missing in the maximum of a queue is bounded by the maxima of its ancestors."""
    tree = tree_of("- {name: a, resources: {max: {memory: 10}}}")
    tree.root.max = {"memory": 100, "vcore": 5000}
    leaf = queue_at(tree, "root.a")
    assert headroom(leaf) == {"memory": 10, "vcore": 5000}


def test_the_headroom_is_the_least_on_the_way_to_root() -> None:
    """For each type the headroom is the least room of the queue and all queues above."""
    leaf = line(
        ({"memory": 100, "vcore": 100}, {"memory": 60}),
        ({"memory": 80}, {"memory": 50}),
        ({"vcore": 30}, {"memory": 10, "vcore": 40}),
    )
    assert headroom(leaf) == {"memory": 30, "vcore": -10}


@given(st.lists(st.tuples(maxima, sizes), min_size=1, max_size=4), sizes)
def test_an_ask_fits_in_the_headroom_if_it_fits_at_every_level(
    levels: list[tuple[Resources | None, Resources]], ask: Resources
) -> None:
    """An ask is within the headroom exactly if it is within the maximum at every level."""
    leaf = line(*levels)
    room = headroom(leaf)
    within = all(amount <= room[name] for name, amount in ask.items() if name in room)
    assert within == all(
        queue.allocated.get(name, 0) + amount <= queue.max[name]
        for queue in leaf.lineage
        if queue.max is not None
        for name, amount in ask.items()
        if name in queue.max
    )


def test_the_fair_maximum_is_the_nearest_maximum() -> None:
    """A queue's own maximum, even zero, replaces the maxima above; zeros in root's maximum are left out."""
    leaf = line(
        ({"memory": 100, "vcore": 50, "gpu": 0}, {}), ({"memory": 40}, {}), ({"memory": 60, "vcore": 0}, {})
    )
    assert fair_max(leaf.lineage[2]) == {"memory": 100, "vcore": 50}
    assert fair_max(leaf.lineage[1]) == {"memory": 40, "vcore": 50}
    assert fair_max(leaf) == {"memory": 60, "vcore": 0}


def test_the_share_is_measured_by_the_guarantee() -> None:
    """The share of a type is its usage divided by the guarantee, or without one by the fair maximum."""
    leaf = line(({"memory": 100, "vcore": 50}, {}), (None, {"memory": 30, "vcore": 10}))
    leaf.guaranteed = {"memory": 40}
    assert denominators(leaf) == {"memory": 40, "vcore": 50}
    assert current_share(leaf) == 30 / 40


@pytest.mark.parametrize(
    ("allocated", "divisors", "expected"),
    [
        ({}, {"memory": 10}, []),
        ({"memory": 5}, {}, []),
        ({"memory": 5}, {"memory": 10}, [0.5]),
        ({"memory": 15}, {"memory": 10}, [1.5]),
        ({"memory": 5, "vcore": 3}, {"memory": 10, "vcore": 4}, [0.75, 0.5]),
        ({"memory": 5}, {"memory": 0}, [1.0]),
        ({"memory": 0}, {"memory": 0}, []),
        ({"memory": 5, "gpu": 1}, {"memory": 10}, [0.5]),
        ({"memory": -5}, {"memory": 10}, []),
    ],
)
def test_quotients_are_descending(allocated: Resources, divisors: Resources, expected: list[float]) -> None:
    """Quotients are sorted in descending order; zero by zero is left out, a positive amount by zero is 1."""
    assert quotients(dict(allocated), dict(divisors)) == expected


def priority(inside: int | None, **settings: bool | int) -> int:
    """The priority of a queue with these settings, and with an ask of this priority or none."""
    queue = Queue("a", None, is_leaf=True, managed=True)
    queue.settings = QueueSettings(**settings)  # type: ignore[arg-type]
    if inside is not None:
        queue.priorities.add(inside)
    return queue.priority()


@pytest.mark.parametrize(
    ("inside", "offset", "expected"),
    [(5, -7, -2), (5, INT32_MAX, INT32_MAX), (-5, INT32_MIN, INT32_MIN), (None, 7, NO_PRIORITY)],
)
def test_a_priority_offset_stays_within_int32(inside: int | None, offset: int, expected: int) -> None:
    """A priority with its offset stays within int32; an offset has no effect on a queue without asks."""
    assert priority(inside, priority_offset=offset) == expected


def test_a_fence_has_the_offset_as_its_priority() -> None:
    """A fence with asks has its offset as priority, whatever the asks are; a fence without asks has none."""
    assert priority(100, priority_fence=True, priority_offset=3) == 3
    assert priority(None, priority_fence=True, priority_offset=3) == NO_PRIORITY
