"""Levels of the log, while the server runs."""

from bisect import bisect_right
from itertools import islice
from typing import Any

from google.protobuf.message import Message

from licorne.v1 import admin_pb2 as pb
from licorne_core.values.ids import RmId
from licorne_server.fair import TimeSlices
from licorne_server.rms.log_levels import RmLogLevels
from licorne_server.security.access import Access
from licorne_server.services.admin.audit import Audit
from licorne_server.services.paging import Page, filled
from licorne_server.services.statuses import Method, unary_handler
from licorne_server.telemetry.logs import levels
from licorne_server.wire.errors import invalid_argument

MAX_WANTED = 100
"""RMs of a page: each may want dozens of levels, and an answer is serialized in one step."""


class LogMethods:
    """`GetLogLevels` and `SetLogLevel`."""

    def __init__(
        self, access: Access, audit: Audit, time_slices: TimeSlices, wanted: RmLogLevels
    ) -> None:
        """The levels are the process's; `wanted` are those requested by RMs.

        Lists of them are made in `time_slices`.
        """
        self._access = access
        self._audit = audit
        self._time_slices = time_slices
        self._wanted = wanted

    def methods(self) -> dict[str, Method]:
        """The methods by name."""
        change = self._audit.of("set log level", self._set, "logger", "level")
        return {
            "GetLogLevels": unary_handler(pb.GetLogLevelsRequest, self._get),
            "SetLogLevel": unary_handler(pb.SetLogLevelRequest, change),
        }

    async def _get(self, request: pb.GetLogLevelsRequest, context: Any) -> Message:
        self._access.check_operator(context)
        peer = self._access.caller(context).peer
        response = pb.GetLogLevelsResponse(levels=levels().given())
        wanted = self._wanted.wanted()

        def add(rm_id: RmId) -> pb.WantedLogLevels | None:
            its = wanted.get(rm_id)
            return response.wanted.add(rm_id=rm_id, levels=its) if its else None

        # Rows are made inside the response: to copy them into it would take as long as to make
        # them, in one step.
        ids = sorted(wanted)
        behind = islice(ids, bisect_right(ids, request.page_token), None)
        size = min(request.page_size or MAX_WANTED, MAX_WANTED)
        page = await filled(Page(behind, add, size=size), self._time_slices, peer)
        response.next_page_token = page.last or ""
        return response

    async def _set(self, request: pb.SetLogLevelRequest, context: Any) -> Message:
        problem = levels().problem(request.logger, request.level)
        if problem is not None:
            raise invalid_argument(problem.text, problem.field)
        levels().set(request.logger, request.level)
        return pb.SetLogLevelResponse(levels=levels().given())
