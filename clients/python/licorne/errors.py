"""Errors that the client raises."""

from collections.abc import Sequence


class LicorneError(Exception):
    """Any error of the client."""


class Closed(LicorneError):
    """The client was closed; make a new one."""


class ConnectionLost(LicorneError):
    """No server could be reached for longer than the retry configuration allows."""


class SessionFenced(LicorneError):
    """A newer instance of this resource manager has taken over; this one must stop."""


class Unauthorized(LicorneError):
    """The server does not know who we are, or does not let us act as this resource manager."""


class ProtocolError(LicorneError):
    """The server and this client do not understand each other; the text says over what."""


class RegistrationInvalid(LicorneError):
    """What this resource manager says of itself was refused: not its queue configuration, but
    its id, version, policy group, build info or extra configuration; the text says which."""


class ConfigInvalid(LicorneError):
    """The queue configuration was refused, with every problem found in it."""

    def __init__(self, text: str, problems: Sequence[str]) -> None:
        """Keep the problems, one text each, as the server worded them."""
        super().__init__(text)
        self.problems = tuple(problems)


class Rejected(LicorneError):
    """One item cannot be taken: `key` says which node, application or ask, `reason` why."""

    def __init__(self, key: str, reason: str) -> None:
        """Keep both; the error's text is ``key: reason``."""
        super().__init__(f"{key}: {reason}")
        self.key = key
        self.reason = reason
