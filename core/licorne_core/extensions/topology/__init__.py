"""Gangs in topology domains: the levels of domains, constraints of gangs on them, places of lost members.

The levels divide the nodes (`domains`), and the tags of a gang bind its members to domains (`terms`).
`domain_terms` lets the kernel try whole gangs only in domains, now or at a later time, and `domain_search`
chooses a domain. `lost_places` reserves room for members that were lost with their nodes. `reports` has the
domains for readers.
"""

from typing import Final

NAME: Final = "topology"

SWAP_SECONDS: Final = "swap_seconds"
"""Setting of a leaf: seconds for which the room of a lost member is reserved."""

STANDARD_SWAP: Final = 300
