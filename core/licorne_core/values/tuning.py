"""Switches for the shortcuts of the scheduling pass, and the size of slices.

None of them may change a decision: the tests run the same worlds with each of them off.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Tuning:
    """`node_index`: heaps of nodes by ask class. `parking`: blocked asks wait for their blocker."""

    node_index: bool = True
    parking: bool = True
    fill_work: int = 4_000
    """Most work of one search for a class's nodes, in units of about a microsecond."""
    slice_size: int = 500
    """Applications, requests and nodes that may end at once: a few milliseconds of work."""
    timeout_size: int = 500
    """Most requests that a deadline may stop or drop at once. The turns of others come between, so
    the order of turns depends on it. So worlds are not played with another one.
    """
