"""Drains: an operator closes a node, and may have its allocations stopped evenly until a deadline.

A closed node takes no new allocations; the mark of the operator is in `Node.closed`, which the kernel reads.
Without a deadline no allocation is stopped: the drain ends with the last allocation. A mark outlives its
node, and the registration of its RM.
"""

from typing import Final

NAME: Final = "drains"
