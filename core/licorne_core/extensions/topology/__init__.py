"""Gangs in topology domains: the places of members that were lost with their nodes (`lost_places`)."""

from typing import Final

NAME: Final = "topology"

SWAP_SECONDS: Final = "swap_seconds"
"""Setting of a leaf: for how many seconds the room of a lost member is kept."""

STANDARD_SWAP: Final = 300
