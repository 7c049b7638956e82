"""Levels of the log, while the server runs."""

from typing import Any

from google.protobuf.message import Message

from licorne.v1 import admin_pb2 as pb
from licorne_server.access import Access
from licorne_server.errors import invalid_argument
from licorne_server.errors_to_status import Method, unary_handler
from licorne_server.logs import levels
from licorne_server.services.admin.audit import Audit


class LogMethods:
    """`GetLogLevels` and `SetLogLevel`."""

    def __init__(self, access: Access, audit: Audit) -> None:
        """The levels are the process's."""
        self._access = access
        self._audit = audit

    def methods(self) -> dict[str, Method]:
        """The methods by name."""
        change = self._audit.of("set log level", self._set, "logger", "level")
        return {
            "GetLogLevels": unary_handler(pb.GetLogLevelsRequest, self._get),
            "SetLogLevel": unary_handler(pb.SetLogLevelRequest, change),
        }

    async def _get(self, request: pb.GetLogLevelsRequest, context: Any) -> Message:
        self._access.check_operator(context)
        return pb.GetLogLevelsResponse(levels=levels().given())

    async def _set(self, request: pb.SetLogLevelRequest, context: Any) -> Message:
        problem = levels().problem(request.logger, request.level)
        if problem is not None:
            raise invalid_argument(problem.text, problem.field)
        levels().set(request.logger, request.level)
        return pb.SetLogLevelResponse(levels=levels().given())
