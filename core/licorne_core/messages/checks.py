"""What the kernel knows of checks of extensions: those of their quotas (`SharedQuota.check`)."""

from typing import ClassVar


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
