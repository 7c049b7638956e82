"""The tags that make a gang elastic, and their readers."""

from collections.abc import Callable, Mapping
from typing import Final

from licorne_core.extensions.elastic.terms import GANG_MAX, GANG_MIN, GANG_STEP, read_members

TAGS: Final[Mapping[str, Callable[[Mapping[str, str], str], int]]] = {
    GANG_MIN: read_members,
    GANG_MAX: read_members,
    GANG_STEP: read_members,
}
