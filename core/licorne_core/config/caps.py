"""Caps on one configuration.

A text beyond a cap is refused before more work is done for it. So reading any text takes a bounded
time, and so does applying it.
"""

from dataclasses import dataclass

from licorne_core.values.names import MAX_INSTRUCTIONS

MAX_BYTES = 2 * 1024 * 1024
"""Bytes of the text: twice the limit of a ConfigMap of Kubernetes, which may hold a compressed text."""

MAX_DEPTH = 32
"""Nested levels of lists and mappings."""

MAX_NODES = 2**18
"""Nodes of the tree: a text of 1 MiB with values of four bytes each, blanks and line ends included."""

MAX_PATTERN_LENGTH = 512
"""Characters of one regular expression. The Python interpreter is blocked while it reads one."""

MAX_PROGRAM = MAX_INSTRUCTIONS
"""Instructions of one of them, compiled: ``\\pL`` has 1,206, ``^(dev|test)-[a-z]+$`` has 14."""

MAX_PROPERTIES = 100
"""Properties of one queue, or of one child template."""

MAX_PROPERTY_LENGTH = 4_096
"""Characters of the value of one property."""

MAX_AMOUNTS = 100
"""Resources in a property that lists amounts. It is read for every queue that inherits it."""


@dataclass(frozen=True, slots=True)
class Cap:
    """Cap on the number of something in the whole text."""

    what: str
    limit: int


PARTITIONS = Cap("partitions", 1_000)
QUEUES = Cap("queues", 10_000)
LIMITS = Cap("limits", 10_000)
LIMIT_NAMES = Cap("users and groups in limits", 20_000)
PLACEMENT_RULES = Cap("placement rules, parent rules included", 1_000)
FILTER_NAMES = Cap("users and groups in filters", 20_000)
PATTERNS = Cap("regular expressions", 500)
INSTRUCTIONS = Cap("instructions of all compiled regular expressions", 16_384)
"""A cap on the sum: in the worst case an application is matched against all expressions."""
ACL_NAMES = Cap("users and groups in access lists", 50_000)
RESOURCE_TYPES = Cap("different resources", 1_000)
"""Cap on the types of all queues: every sum over queues has all of them."""

PROPERTIES_IN_FORCE = Cap("properties of all queues, inherited ones included", 200_000)
"""Cap on the properties of all queues: every queue has its own and its inherited ones."""
