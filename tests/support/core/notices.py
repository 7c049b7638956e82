"""Notices, which are an extension of the core: the driver works without them."""

from collections.abc import Iterable

from licorne_core.extensions.notice.messages import NoticesGiven
from licorne_core.messages.effects import Effect


def noticed(effects: Iterable[Effect]) -> list[str]:
    """The keys of the allocations that are given notice, in order."""
    given = [effect for effect in effects if isinstance(effect, NoticesGiven)]
    return [notice.key for effect in given for notice in effect.notices]
