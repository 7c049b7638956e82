"""Leaves in which an application waits for another: state-aware and strict ones (spec § 5.2).

The sort policy `stateaware` of a leaf (`keys`) is first come, first served, except for accepted applications:
only the oldest of them is tried. From its first allocation to its second, or for a while, it is *starting*
and no other accepted application is tried. The RM may switch the policy off for all its leaves, and a tag for
one application.

The sort policy `strict` is strictly first come, first served: only the first application with waiting asks is
tried, so that no other application passes it.

`admission` has the starting application of one leaf, and the next one. `extension` follows the states of
applications and their allocations; `rules` has the rule that explanations show.
"""

from typing import Final

from licorne_core.config.schema import OtherSort

NAME: Final = "state_aware"
POLICY: Final = OtherSort("stateaware")
STRICT: Final = OtherSort("strict")
AS_FIFO: Final = "stateaware-as-fifo"
"""Flag of the RM's extra configuration with which the policy has the effect of `fifo`."""
