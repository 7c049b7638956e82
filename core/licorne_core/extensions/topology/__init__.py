"""Gangs in topology domains: the levels of domains, the constraints of gangs on them, and lost places.

The levels divide the nodes (`domains`), and the tags of a gang bind its members to domains (`terms`). By
`domain_terms` the kernel tries whole gangs in domains only, now or at a later time, and `domain_search`
chooses one. `lost_places` reserves room for members that were lost with their nodes. `reports` has the
domains for readers.
"""

from typing import Final

NAME: Final = "topology"

SWAP_SECONDS: Final = "swap_seconds"
"""Setting of a leaf: seconds for which the room of a lost member is reserved."""

STANDARD_SWAP: Final = 300
