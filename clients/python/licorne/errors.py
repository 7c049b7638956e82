"""Errors that the client raises."""

from collections.abc import Sequence


class LicorneError(Exception):
    """Any error of the client."""


class Closed(LicorneError):
    """The client was closed and cannot be used again."""


class ConnectionLost(LicorneError):
    """There was no session for longer than `RetryConfig.give_up_after`, or a call got no answer."""


class SessionFenced(LicorneError):
    """A newer instance of this resource manager has taken over; this one must stop."""


class Unauthorized(LicorneError):
    """The server does not know who we are, or does not let us act as this resource manager."""


class ProtocolError(LicorneError):
    """The server does not speak the protocol of this client; the text says where they differ.

    A message was refused, sent again and refused again, and nothing was dealt with in between. The
    error's note says what to look at.
    """


class RegistrationInvalid(LicorneError):
    """The server refused the id, version, policy group, build info or extra configuration.

    The text says which. A refused queue configuration is `ConfigInvalid`.
    """


class ConfigInvalid(LicorneError):
    """The server refused the queue configuration. `problems` are all that it found there."""

    def __init__(self, text: str, problems: Sequence[str]) -> None:
        """Keep the problems, one text each, as the server worded them."""
        super().__init__(text)
        self.problems = tuple(problems)


class Rejected(LicorneError):
    """One item cannot be sent: `key` is that of the node, application or ask, `reason` says why."""

    def __init__(self, key: str, reason: str) -> None:
        """Keep both; the error's text is ``key: reason``."""
        super().__init__(f"{key}: {reason}")
        self.key = key
        self.reason = reason
