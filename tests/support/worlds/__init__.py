"""Random worlds: scripts of commands drawn from a seed, for properties that must always hold.

A script is drawn whole, before anything runs, and every part of it is allowed to make no sense
(a release of what never was), so that any part can be left out when a failure is narrowed down.
"""

from support.worlds.comparing import Disagreement, compare
from support.worlds.making import World
from support.worlds.playing import Step, play_watched
from support.worlds.shrinking import shown, shrink

__all__ = ["Disagreement", "Step", "World", "compare", "play_watched", "shown", "shrink"]
