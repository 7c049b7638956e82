"""Backfill: blocked asks hold planned starts, and others pass them if they delay none (spec § 8.5).

A blocked ask gets a *shadow start* (`shadows`), which is a claim of the kernel: the earliest time at which
all that it needs fits. `start_search` and `start_sets` find it by the ends of what runs
(`expected_ends`), which are declared by tags, or learnt (`runtimes`). `planned_starts` is the remedy by
which asks get a start, and tries the holders. `unplanned` has the pauses of those that get none, and
`planned_room` decides who passes. `projection` guesses the starts of all others for `reports`.
"""

from enum import Enum
from typing import Final

NAME: Final = "backfill"
START_BY: Final = "licorne/start-by"
"""Tag: the latest start that is wanted, in unix seconds."""

RESERVE_AFTER: Final = "reserve_after"
"""Setting of a leaf: seconds that an ask waits before it may hold a shadow start."""


class Backfill(Enum):
    """Number of blocked asks of a partition that hold a shadow start at a time."""

    OFF = "off"
    EASY = "easy"
    """The first one."""
    CONSERVATIVE = "conservative"
    """The first ones, up to a fixed bound."""
