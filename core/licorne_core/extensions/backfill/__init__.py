"""Backfill: blocked asks hold planned starts; other asks may start earlier if they delay none (spec § 8.5).

A blocked ask gets a *shadow start* (`shadows`), which is a claim of the kernel: the earliest time at which
all its needs fit. `start_search` and `start_sets` find it by the expected ends of allocations
(`expected_ends`), which are declared by tags, or learnt from runs. `planned_starts` is the remedy by which
asks get a start, and tries the holders. `openings` has the times at which a leaf is open. `unplanned` has the
pauses of asks without a start, and `planned_room` decides which asks may pass, and `passing` in which order
they are tried. `projection` estimates the starts of all other asks for `reports`.
"""

from enum import Enum
from typing import Final

NAME: Final = "backfill"
START_BY: Final = "licorne/start-by"
"""Tag with the latest wanted start, in unix seconds."""

RESERVE_AFTER: Final = "reserve_after"
"""Setting of a leaf: seconds that an ask waits before it may hold a shadow start."""

ORDER: Final = "pass_order"
"""Setting of root: the `PassOrder`."""

ORDER_UNTIL: Final = "pass_order_until"
"""Setting of root: seconds of wait after which an application is tried in order of arrival; 0.0: never."""

STANDARD_UNTIL: Final = 43_200.0
"""Default of `pass_order_until`: the longest wait in the measured traces is then as in order of arrival."""


class Backfill(Enum):
    """The blocked asks of a partition that may hold a shadow start."""

    OFF = "off"
    EASY = "easy"
    """Only the first blocked ask holds a shadow start."""
    CONSERVATIVE = "conservative"
    """The first blocked asks hold a start each, up to a fixed number; each is held until its expected end."""


class PassOrder(Enum):
    """Order in which applications are tried that may pass planned starts."""

    ARRIVAL = "arrival"
    SHORTEST = "shortest"
    """Applications with the shortest expected runtime first."""
