"""Random worlds: scripts of commands drawn from a seed, for invariants.

A script is drawn completely before anything runs. Any part of it may be invalid, such as a release of an
unknown key, so that any part can be left out when a failing script is reduced.
"""

from support.worlds.comparing import Disagreement, compare
from support.worlds.making import World
from support.worlds.playing import Step, play_watched
from support.worlds.shrinking import shown, shrink

__all__ = ["Disagreement", "Step", "World", "compare", "play_watched", "shown", "shrink"]
