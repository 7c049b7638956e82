"""The priority that a queue has among its siblings (spec § 4.11)."""

import pytest

from licorne_core.config.schema import QueueSettings
from licorne_core.model.queues.queue import Queue
from licorne_core.values.priorities import INT32_MAX, INT32_MIN, NO_PRIORITY


def priority(inside: int | None, **settings: bool | int) -> int:
    """What a queue with these settings has, with an ask of that priority or none inside."""
    queue = Queue("a", None, is_leaf=True, managed=True)
    queue.settings = QueueSettings(**settings)  # type: ignore[arg-type]
    if inside is not None:
        queue.priorities.add(inside)
    return queue.priority()


@pytest.mark.parametrize(
    ("inside", "offset", "expected"),
    [
        (5, -7, -2),
        (5, INT32_MAX, INT32_MAX),
        (-5, INT32_MIN, INT32_MIN),
        (None, 7, NO_PRIORITY),
    ],
)
def test_the_highest_inside_is_offset_within_int32(inside: int | None, offset: int, expected: int) -> None:
    """An offset stops at the ends of int32, and does nothing for a queue without asks."""
    assert priority(inside, priority_offset=offset) == expected


def test_a_fence_shows_the_offset_only() -> None:
    """What is behind a fence has no say outside; without asks there is no priority at all."""
    assert priority(100, priority_fence=True, priority_offset=3) == 3
    assert priority(None, priority_fence=True, priority_offset=3) == NO_PRIORITY
