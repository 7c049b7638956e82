"""Errors of the client."""

from collections.abc import Sequence


class LicorneError(Exception):
    """Any error of the client."""


class Closed(LicorneError):
    """The client was closed and cannot be used again."""


class ConnectionLost(LicorneError):
    """There was no session for longer than `RetryConfig.give_up_after`, or no answer to a call in time."""


class SessionFenced(LicorneError):
    """A newer instance of this resource manager has replaced this one, which must stop."""


class Unauthorized(LicorneError):
    """The server cannot authenticate this client, or does not permit what it requests."""


class ProtocolError(LicorneError):
    """The server does not support the protocol of this client; the text describes the difference.

    Also raised, with advice in a note, if a message was refused twice without progress in between.
    """


class RegistrationInvalid(LicorneError):
    """The server refused the RM's id, version, policy group, build info or extra configuration.

    The text names the field. A refused queue configuration is `ConfigInvalid`.
    """


class ConfigInvalid(LicorneError):
    """The server refused a configuration; `problems` has all its problems."""

    def __init__(self, text: str, problems: Sequence[str]) -> None:
        """Store the problems, each as the text that the server sent."""
        super().__init__(text)
        self.problems = tuple(problems)


class NotFound(LicorneError):
    """The subject of a call of `State` or `Admin` does not exist; the text names it."""


class StaleRevision(LicorneError):
    """The configuration was changed since the given revision; this call has changed nothing.

    `revision` is the revision in force. Read its text before the next change.
    """

    def __init__(self, text: str, revision: int) -> None:
        """Store the number of the revision in force."""
        super().__init__(text)
        self.revision = revision


class EventsMissed(LicorneError):
    """Expected events were dropped, or their ids started over.

    Watch `instance` from `next_id` on, and read the current state, because some events are lost.
    """

    def __init__(self, text: str, instance: str, next_id: int) -> None:
        """Store the instance and the next id."""
        super().__init__(text)
        self.instance = instance
        self.next_id = next_id


class CallFailed(LicorneError):
    """The server refused a call of `State` or `Admin`, or failed to carry it out.

    `reason` is for programs: the server's reason, such as ``RM_CONNECTED``, or if there is none the name of
    the gRPC status code, such as ``INVALID_ARGUMENT``.
    """

    def __init__(self, text: str, reason: str) -> None:
        """Store the text for people and the reason for programs."""
        super().__init__(text)
        self.reason = reason


class Rejected(LicorneError):
    """An item cannot be sent; `key` is the id of the node or application, or the key of the ask."""

    def __init__(self, key: str, reason: str) -> None:
        """Store the key and the reason; the text of the error is ``key: reason``."""
        super().__init__(f"{key}: {reason}")
        self.key = key
        self.reason = reason
