"""The Python client of Licorne, and the wire types that it speaks."""

from licorne.callbacks import ClassBy, ContainerState, EventRecord, FailMode, PredicateCheck
from licorne.client import Client
from licorne.errors import (
    Closed,
    ConfigInvalid,
    ConnectionLost,
    LicorneError,
    ProtocolError,
    RegistrationInvalid,
    Rejected,
    SessionFenced,
    Unauthorized,
)
from licorne.events import (
    Allocated,
    ApplicationAccepted,
    ApplicationRejected,
    ApplicationStateChanged,
    AskRejected,
    Drained,
    Event,
    NodeAccepted,
    NodeRejected,
    Reconnected,
    Released,
    ReleaseRequested,
)
from licorne.handlers import Handlers
from licorne.model import Allocation, Application, Ask, Node, Termination
from licorne.options import Limits, RetryConfig, TlsConfig

__all__ = [
    "Allocated",
    "Allocation",
    "Application",
    "ApplicationAccepted",
    "ApplicationRejected",
    "ApplicationStateChanged",
    "Ask",
    "AskRejected",
    "ClassBy",
    "Client",
    "Closed",
    "ConfigInvalid",
    "ConnectionLost",
    "ContainerState",
    "Drained",
    "Event",
    "EventRecord",
    "FailMode",
    "Handlers",
    "LicorneError",
    "Limits",
    "Node",
    "NodeAccepted",
    "NodeRejected",
    "PredicateCheck",
    "ProtocolError",
    "Reconnected",
    "RegistrationInvalid",
    "Rejected",
    "ReleaseRequested",
    "Released",
    "RetryConfig",
    "SessionFenced",
    "Termination",
    "TlsConfig",
    "Unauthorized",
]
