"""Keys of a configuration: values, defaults and effects.

The parser knows the keys of these tables and no others, so that no key is without a description.
`docs/reference.py` writes ``docs/configuration-reference.md`` from them.
"""

from licorne_core.config.keys.partitions import (
    DOCUMENT,
    FILTER,
    NODE_SORT,
    PARTITION,
    PREEMPTION,
    RESOLVER,
    RESOLVERS,
    RULE,
)
from licorne_core.config.keys.queues import (
    LIMIT,
    QUEUE,
    RESOURCES,
    TEMPLATE,
    TEMPLATE_RESOURCES,
    Key,
    Kind,
    Section,
)
from licorne_core.config.keys.settings import EXTRA, PROPERTIES

__all__ = [
    "DOCUMENT",
    "EXTRA",
    "FILTER",
    "LIMIT",
    "NODE_SORT",
    "PARTITION",
    "PREEMPTION",
    "PROPERTIES",
    "QUEUE",
    "RESOLVER",
    "RESOLVERS",
    "RESOURCES",
    "RULE",
    "TEMPLATE",
    "TEMPLATE_RESOURCES",
    "Key",
    "Kind",
    "Section",
]
