"""What the kernel and those who show explanations know of checks of extensions."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import NamedTuple

from licorne_core.values.ids import RmId
from licorne_core.values.resources import EMPTY, Resources


class Shown(NamedTuple):
    """How a check is shown beside its message: its kind and what it is about.

    It may pass by itself `until` a time in unix seconds, 0.0 for none. Amounts are by resource name, those
    of `holders` by RM.
    """

    kind: str
    subject: str
    until: float = 0.0
    requested: Resources = EMPTY
    used: Resources = EMPTY
    limit: Resources = EMPTY
    holders: Mapping[RmId, Resources] = MappingProxyType({})


class ExtensionCheck:
    """A comparison of an ask with a quota of an extension, as each of its checks extends this."""

    __slots__ = ()

    @property
    def code(self) -> str:
        """The reason in one word, such as ``QUEUE_MAX_EXCEEDED``."""
        raise NotImplementedError

    @property
    def passed(self) -> bool:
        """True if the ask fits here."""
        raise NotImplementedError

    def message(self) -> str:
        """The reason in one sentence."""
        raise NotImplementedError

    def shown(self) -> Shown:
        """What is shown of it beside the message."""
        raise NotImplementedError

    def seen_by(self, may_see: Callable[[RmId], bool]) -> "ExtensionCheck":
        """The check without RMs that somebody may not see."""
        return self


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleCheck:
    """A check of a rule of an extension, which concerns a queue or another `subject` of a `kind`.

    `text` is the reason in one sentence. `requested` are the amounts that are compared, and `until` is the
    time at which it is met, in unix seconds; 0.0 for an unknown one.
    """

    code: str
    kind: str
    subject: str
    text: str
    passed: bool
    requested: Resources = field(default_factory=dict)
    until: float = 0.0

    def message(self) -> str:
        """The reason in one sentence."""
        return self.text

    def shown(self) -> Shown:
        """What is shown of it beside the message."""
        return Shown(self.kind, self.subject, self.until, self.requested)
