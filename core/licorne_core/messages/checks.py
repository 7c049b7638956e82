"""Checks of extensions: their interface to the kernel and to views that show explanations."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import NamedTuple

from licorne_core.values.ids import RmId
from licorne_core.values.resources import EMPTY, Resources


class Shown(NamedTuple):
    """Fields that are displayed beside the message of a check: its kind, and its subject.

    `until` is the time at which the check passes without any other change, in unix seconds; 0.0 if there is
    none. Amounts are by resource name, and those of `holders` by RM.
    """

    kind: str
    subject: str
    until: float = 0.0
    requested: Resources = EMPTY
    used: Resources = EMPTY
    limit: Resources = EMPTY
    holders: Mapping[RmId, Resources] = MappingProxyType({})


class ExtensionCheck:
    """Base of the checks of extensions that compare an ask with a quota."""

    __slots__ = ()

    @property
    def code(self) -> str:
        """The reason as a code, such as ``QUEUE_MAX_EXCEEDED``."""
        raise NotImplementedError

    @property
    def passed(self) -> bool:
        """True if the ask fits into the quota."""
        raise NotImplementedError

    def message(self) -> str:
        """The reason in one sentence."""
        raise NotImplementedError

    def shown(self) -> Shown:
        """The fields that are displayed beside the message."""
        raise NotImplementedError

    def seen_by(self, may_see: Callable[[RmId], bool]) -> "ExtensionCheck":
        """The check without RMs that the reader must not see."""
        return self


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleCheck:
    """Result of an extension's rule for one ask; `subject` is a queue or another object of a `kind`.

    `text` is the reason in one sentence. `requested` are the amounts that are compared. `until` is the
    time at which the check passes without any other change, in unix seconds; 0.0 if it is unknown.
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
        """The fields that are displayed beside the message."""
        return Shown(self.kind, self.subject, self.until, self.requested)
