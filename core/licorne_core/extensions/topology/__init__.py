"""Gangs in topology domains: the levels of domains, terms of gangs about them, and lost places.

The levels say how nodes are divided, and `terms` what the tags of a gang say of where its members have to be:
the kernel's search for whole gangs does the rest. `lost_places` keeps room for members that were lost with
their nodes. `reports` has the domains for readers.
"""

from typing import Final

NAME: Final = "topology"

SWAP_SECONDS: Final = "swap_seconds"
"""Setting of a leaf: for how many seconds the room of a lost member is kept."""

STANDARD_SWAP: Final = 300
