"""State-aware leaves: new applications start one at a time (spec § 5.2).

The sort policy `stateaware` of a leaf (`keys`) is first come, first served, but for accepted applications:
the oldest is looked at alone, and from its first allocation to its second, or for a while, it is *starting*
and no other accepted application is looked at. The RM may switch it off for all its leaves, and a tag for
one application.

`admission` knows who is starting in one leaf, and who is next. `extension` follows the states of
applications and their allocations; `rules` has the rule that explanations show.
"""

from typing import Final

from licorne_core.config.schema import OtherSort

NAME: Final = "state_aware"
POLICY: Final = OtherSort("stateaware")
AS_FIFO: Final = "stateaware-as-fifo"
"""Flag of the RM's extra configuration with which the policy means `fifo`."""
