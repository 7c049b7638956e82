"""Where messages are sent: every call of both packages, by the services that they describe."""

from dataclasses import dataclass
from enum import Enum
from typing import Any

from google.protobuf.descriptor import Descriptor, MethodDescriptor
from google.protobuf.message_factory import GetMessageClass

from licorne.si.v1 import si_pb2 as si
from licorne.v1 import admin_pb2 as admin
from licorne.v1 import session_pb2 as session
from licorne.v1 import state_pb2 as state


class How(Enum):
    """How a message gets to the server."""

    CALL = "the request of a unary call"
    WATCH = "the request of a call with many responses"
    FIRST = "what a stream begins with"
    LATER = "what comes over a stream that was opened properly"


@dataclass(frozen=True, slots=True)
class Target:
    """A place to send messages of one type to."""

    name: str
    method: str
    how: How
    request: Descriptor
    response: Any
    """The class of what is answered."""

    @property
    def service(self) -> str:
        """The full name of the service."""
        return self.method.split("/")[1]

    @property
    def weight(self) -> int:
        """How often it is drawn: what changes books is, and a session has all in one."""
        if self.how is How.LATER:
            return 10 if self.is_session else 4
        return 2 if self.how is How.FIRST or "Configuration" in self.name else 1

    @property
    def is_session(self) -> bool:
        """Whether it is the one stream of a session."""
        return self.method == SESSION


SESSION = "/licorne.v1.Session/Update"
_FILES = (si.DESCRIPTOR, session.DESCRIPTOR, admin.DESCRIPTOR, state.DESCRIPTOR)


def _targets_of(service: str, method: MethodDescriptor) -> list[Target]:
    path = f"/{service}/{method.name}"
    types = (method.input_type, GetMessageClass(method.output_type))
    if method.client_streaming:
        name = "Session" if path == SESSION else method.name
        return [
            Target(f"{name}.first", path, How.FIRST, *types),
            Target(name, path, How.LATER, *types),
        ]
    how = How.WATCH if method.server_streaming else How.CALL
    return [Target(method.name, path, how, *types)]


TARGETS = {
    target.name: target
    for file in _FILES
    for service in file.services_by_name.values()
    for method in service.methods
    for target in _targets_of(service.full_name, method)
}
"""By name: that of the method, with `.first` for what begins a stream."""
