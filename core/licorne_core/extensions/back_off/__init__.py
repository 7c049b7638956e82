"""Back-off: an application is not tried for a while if too many of its asks find no node (spec § 8.3a).

Properties of a leaf give the number of consecutive asks, and the duration (`keys`). An ask counts if it
precedes an ask that could be placed and fits no node; an ask that a rule stops regardless of nodes does not
count (`counting`). So later applications of a busy leaf are not delayed by unsuccessful searches.

`extension` pauses applications, each with one deadline. `rules` has the rule that stops their asks during the
back-off, and `reports` the fields of reports.
"""

from typing import Final

NAME: Final = "back_off"
DELAY: Final = "back_off_delay"
STANDARD_DELAY: Final = 30.0
"""Seconds of a back-off, unless the leaf sets another time."""
