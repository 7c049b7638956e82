"""Back-off: an application is not tried for a while if too many of its asks find no node (spec § 8.3a).

A leaf says by its properties how many asks in a row, and for how long (`keys`). An ask counts if it stands
before one that could be placed and no node took it; asks that a rule stops do not, whatever nodes there are
(`counting`). So the applications behind in a busy leaf are served, and not held up by searches in vain.

`extension` pauses applications, for which each has one deadline. `rules` has the rule that stops their asks
meanwhile, and `reports` what is shown of it.
"""

from typing import Final

NAME: Final = "back_off"
DELAY: Final = "back_off_delay"
STANDARD_DELAY: Final = 30.0
"""Seconds of a back-off where the leaf does not say."""
