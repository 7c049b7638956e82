"""Events from the scheduler to a resource manager, and the client's state of each item."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from licorne.model import Application, Ask, Node, Termination


@dataclass(frozen=True, slots=True)
class NodeAccepted:
    """The server has accepted the node, and may allocate asks to it."""

    node_id: str


@dataclass(frozen=True, slots=True)
class NodeRejected:
    """The server has refused the node, and the client has dropped it."""

    node_id: str
    reason: str


@dataclass(frozen=True, slots=True)
class ApplicationAccepted:
    """The application is in a queue, and its asks can be scheduled."""

    application_id: str


@dataclass(frozen=True, slots=True)
class ApplicationRejected:
    """The server has refused the application, and the client has dropped it with all its asks."""

    application_id: str
    reason: str


@dataclass(frozen=True, slots=True)
class ApplicationStateChanged:
    """The application entered a state. `time` is in unix seconds."""

    application_id: str
    state: str
    time: float
    message: str


@dataclass(frozen=True, slots=True)
class Allocated:
    """An ask was allocated to a node: start it there. A placeholder only holds the resources."""

    key: str
    application_id: str
    node_id: str
    partition: str
    placeholder: bool = False


@dataclass(frozen=True, slots=True)
class Released:
    """An allocation has ended: it was released, or its node or application was removed."""

    key: str
    application_id: str
    node_id: str
    message: str
    placeholder: bool = False


@dataclass(frozen=True, slots=True)
class ReleaseRequested:
    """The scheduler requests the end of an allocation.

    Stop it, then call `Client.release` with its key and this `termination`; until then its resources are
    not freed. If `confirmed`, the client has already done so (see `Confirm`). After a replay the server
    may repeat the request.
    """

    key: str
    application_id: str
    node_id: str
    termination: Termination
    message: str
    placeholder: bool = False
    confirmed: bool = False


@dataclass(frozen=True, slots=True)
class AskDropped:
    """The server has dropped an ask because the placeholders of its gang have waited too long.

    The client has dropped the ask too. If `resubmitted`, it will submit the ask again once the application is
    Accepted.
    """

    key: str
    application_id: str
    message: str
    placeholder: bool
    resubmitted: bool


@dataclass(frozen=True, slots=True)
class AskRejected:
    """The server has refused an ask or a reported allocation, and the client has dropped it.

    If only a change was refused, the client retains the former ask.
    """

    key: str
    application_id: str
    reason: str
    placeholder: bool = False


@dataclass(frozen=True, slots=True)
class Drained:
    """The server is about to stop. The client connects again after `retry_after` seconds."""

    reason: str
    retry_after: float


@dataclass(frozen=True, slots=True)
class Reconnected:
    """A lost stream was replaced.

    If `resumed`, the session continues where it was interrupted. Otherwise a replay has sent the whole state.
    """

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
    | AskDropped
    | AskRejected
    | Drained
    | Reconnected
)


AppKey = tuple[str, str]
"""Partition and application id."""


@dataclass(slots=True)
class KnownNode:
    """A node, and the server's answers about it."""

    node: Node
    """The node as the caller has last described it."""
    accepted: bool = False
    """True if the server has ever accepted the node."""


@dataclass(slots=True)
class KnownApplication:
    """An application, and the server's answers about it."""

    application: Application
    number: int
    """Position in the order of submission, in which a replay sends the applications."""
    accepted: bool = False
    """True if the server has accepted the application since the last registration."""
    told_accepted: bool = False
    """True if the caller has received `ApplicationAccepted`, which is sent at most once."""
    told_state: str = ""
    """The state in the last event to the caller."""
    heard: ApplicationStateChanged | None = None
    """The last state that the server has reported."""


class KnownAsk(NamedTuple):
    """An ask that has not ended: pending, or allocated to a node."""

    ask: Ask
    asked_at: int
    """Time of the caller's ask or report, in unix seconds."""
    node_id: str = ""
    """The node to which the ask is allocated; empty while it is pending."""


def application_of(asks: Mapping[str, KnownAsk], key: str) -> AppKey | None:
    """The application of an ask; None if the ask is not among `asks`."""
    known = asks.get(key)
    return None if known is None else (known.ask.partition, known.ask.application_id)
