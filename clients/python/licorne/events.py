"""What the scheduler tells a resource manager."""

from dataclasses import dataclass

from licorne.model import Termination


@dataclass(frozen=True, slots=True)
class NodeAccepted:
    """The node is known; asks may be placed on it."""

    node_id: str


@dataclass(frozen=True, slots=True)
class NodeRejected:
    """The node was not taken, and the client has forgotten it."""

    node_id: str
    reason: str


@dataclass(frozen=True, slots=True)
class ApplicationAccepted:
    """The application is in a queue; its asks are looked at."""

    application_id: str


@dataclass(frozen=True, slots=True)
class ApplicationRejected:
    """The application was not taken, and the client has forgotten it and all its asks."""

    application_id: str
    reason: str


@dataclass(frozen=True, slots=True)
class ApplicationStateChanged:
    """The application entered a state; `time` is in unix seconds."""

    application_id: str
    state: str
    time: float
    message: str


@dataclass(frozen=True, slots=True)
class Allocated:
    """An ask has got its node: run it there."""

    key: str
    application_id: str
    node_id: str
    partition: str


@dataclass(frozen=True, slots=True)
class Released:
    """An allocation is gone from the books: by our own release, or with its node or application."""

    key: str
    application_id: str
    node_id: str
    message: str


@dataclass(frozen=True, slots=True)
class ReleaseRequested:
    """The scheduler wants an allocation to end. Stop it, then call `Client.release` with its key
    and this `termination`; until then nothing is freed."""

    key: str
    application_id: str
    node_id: str
    termination: Termination
    message: str


@dataclass(frozen=True, slots=True)
class AskRejected:
    """An ask or a reported allocation was not taken, and the client has forgotten it.

    Where it was a change that was refused, the client goes on with what there was before.
    """

    key: str
    application_id: str
    reason: str


@dataclass(frozen=True, slots=True)
class Drained:
    """The server is about to stop. The client comes back to it after `retry_after` seconds."""

    reason: str
    retry_after: float


@dataclass(frozen=True, slots=True)
class Reconnected:
    """A lost stream was made good: `resumed` where it broke, or else by a replay of everything."""

    resumed: bool


Event = (
    NodeAccepted
    | NodeRejected
    | ApplicationAccepted
    | ApplicationRejected
    | ApplicationStateChanged
    | Allocated
    | Released
    | ReleaseRequested
    | AskRejected
    | Drained
    | Reconnected
)
