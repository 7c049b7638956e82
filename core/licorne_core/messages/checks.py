"""What the kernel knows of checks of extensions: those of their quotas (`SharedQuota.check`), and rules."""

from dataclasses import dataclass, field
from typing import ClassVar

from licorne_core.values.resources import Resources


class ExtensionCheck:
    """A comparison of an ask with a quota of an extension, as each of its checks extends this."""

    __slots__ = ()

    code: ClassVar[str]

    @property
    def passed(self) -> bool:
        """True if the ask fits here."""
        raise NotImplementedError

    def message(self) -> str:
        """The reason in one sentence."""
        raise NotImplementedError


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
