"""Caps on one configuration.

A text beyond a cap is refused before more work is done for it. So the time to read any text, and to apply it,
is bounded.
"""

from dataclasses import dataclass

from licorne_core.values.names import MAX_INSTRUCTIONS

MAX_BYTES = 2 * 1024 * 1024
"""Maximum bytes of the text: twice the limit of a Kubernetes ConfigMap, which may hold a compressed text."""

MAX_DEPTH = 32
"""Maximum nesting of lists and mappings."""

MAX_NODES = 2**18
"""Maximum number of nodes in the tree: as many as 1 MiB of text has with values of four bytes each."""

MAX_PATTERN_LENGTH = 512
"""Maximum number of characters of a regular expression; reading one blocks the Python interpreter."""

MAX_PROGRAM = MAX_INSTRUCTIONS
r"""Maximum number of instructions of a compiled one: ``\pL`` has 1,206, ``^(dev|test)-[a-z]+$`` has 14."""

MAX_PROPERTIES = 100
"""Maximum number of properties of one queue, or of one child template."""

MAX_PROPERTY_LENGTH = 4_096
"""Maximum number of characters of the value of a property."""

MAX_AMOUNTS = 100
"""Maximum number of resources in a property that lists amounts; every inheriting queue reads it."""


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
"""A cap on the sum of all expressions: in the worst case an application is matched against each."""
ACL_NAMES = Cap("users and groups in access lists", 50_000)
RESOURCE_TYPES = Cap("different resources", 1_000)
"""Cap on the types of all queues: every sum over queues has all of them."""

PROPERTIES_IN_FORCE = Cap("properties of all queues, inherited ones included", 200_000)
"""Cap on the properties of all queues: every queue has its own and its inherited ones."""
