"""Gangs in topology domains: the levels of domains, terms of gangs about them, and lost places.

The levels say how nodes are divided (`domains`), and the tags of a gang where its members have to be
(`terms`). By `domain_terms` the kernel tries whole gangs in domains alone, now or at a later time, and
`domain_search` chooses one. `lost_places` keeps room for members that were lost with their nodes. `reports`
has the domains for readers.
"""

from typing import Final

NAME: Final = "topology"

SWAP_SECONDS: Final = "swap_seconds"
"""Setting of a leaf: for how many seconds the room of a lost member is kept."""

STANDARD_SWAP: Final = 300
