"""Keys of a configuration: values, defaults and effects.

The parser knows the keys of these tables and no others, so that no key is without a description.
`docs/reference.py` writes ``docs/configuration-reference.md`` from them.
"""

from licorne_core.config.keys.settings import EXTRA, PROPERTIES
from licorne_core.config.keys.structure import (
    DOCUMENT,
    FILTER,
    LIMIT,
    NODE_SORT,
    PARTITION,
    PREEMPTION,
    QUEUE,
    RESOLVER,
    RESOLVERS,
    RESOURCES,
    RULE,
    TEMPLATE,
    TEMPLATE_RESOURCES,
    Key,
    Kind,
    Section,
)

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
