"""The client's state of one node, application or ask."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from licorne.events import ApplicationStateChanged
from licorne.model import Application, Ask, Node

AppKey = tuple[str, str]
"""Partition and application id."""


@dataclass(slots=True)
class KnownNode:
    """A node, and the server's answers about it."""

    node: Node
    """The node as the caller described it last."""
    accepted: bool = False
    """True if the server has ever accepted it."""


@dataclass(slots=True)
class KnownApplication:
    """An application, and the server's answers about it."""

    application: Application
    number: int
    """Rises with every application that is submitted; a replay sends them in this order."""
    accepted: bool = False
    """True if the server has accepted it since the last registration."""
    told_accepted: bool = False
    """True if the caller has had the event of an acceptance; there is one at most."""
    told_state: str = ""
    """The state in the caller's last event."""
    heard: ApplicationStateChanged | None = None
    """The state that the server reported last."""


class KnownAsk(NamedTuple):
    """An ask that has not ended: pending, or allocated to a node."""

    ask: Ask
    asked_at: int
    """Time of the caller's request, in unix seconds."""
    node_id: str = ""
    """The node that it is allocated to; empty while it is pending."""


def application_of(asks: Mapping[str, KnownAsk], key: str) -> AppKey | None:
    """The application of an ask; None for an ask that is not among these."""
    known = asks.get(key)
    return None if known is None else (known.ask.partition, known.ask.application_id)
