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
    AskDropped,
    AskRejected,
    Drained,
    Event,
    NodeAccepted,
    NodeRejected,
    Reconnected,
    Released,
    ReleaseRequested,
)
from licorne.gangs import placeholder_key, placeholders
from licorne.handlers import Handlers
from licorne.model import Allocation, Application, Ask, Node, TaskGroup, Termination
from licorne.options import Confirm, Limits, RetryConfig, TlsConfig, Token
from licorne.victims import NodeVictims, PreemptionCheck, Victim

__all__ = [
    "Allocated",
    "Allocation",
    "Application",
    "ApplicationAccepted",
    "ApplicationRejected",
    "ApplicationStateChanged",
    "Ask",
    "AskDropped",
    "AskRejected",
    "ClassBy",
    "Client",
    "Closed",
    "ConfigInvalid",
    "Confirm",
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
    "NodeVictims",
    "PredicateCheck",
    "PreemptionCheck",
    "ProtocolError",
    "Reconnected",
    "RegistrationInvalid",
    "Rejected",
    "ReleaseRequested",
    "Released",
    "RetryConfig",
    "SessionFenced",
    "TaskGroup",
    "Termination",
    "TlsConfig",
    "Token",
    "Unauthorized",
    "Victim",
    "placeholder_key",
    "placeholders",
]
