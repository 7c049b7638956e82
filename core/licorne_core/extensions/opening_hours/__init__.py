"""Opening hours: a leaf starts asks only in declared hours of the day, in UTC (spec § 4.2).

The property `opening.hours` of a leaf sets the hours (`keys`). Outside of these hours its asks wait for the
next opening, including those with reserved nodes; allocations continue.

`terms` has the arithmetic of the hours of one leaf, and `rules` the rule for asks. `extension` follows the
leaves and the time: a leaf has the extension's bit in its `interests` while it is closed, so that an open
leaf costs nothing. `recount` derives these bits again.
"""

from typing import Final

NAME: Final = "opening_hours"
"""Name of the extension, and of its setting: the hours of a queue."""
