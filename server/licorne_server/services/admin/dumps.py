"""The state dump, as HTTP gives it (spec § 12.5)."""

import asyncio
from typing import Any

from licorne.v1 import admin_pb2 as pb
from licorne_server.http.dumps import DumpInProgress, StateDumps
from licorne_server.security.access import Access
from licorne_server.services.admin.audit import Audit
from licorne_server.services.admin.names import Names
from licorne_server.services.statuses import Method, watch_handler
from licorne_server.wire.errors import aborted, exhausted

STALL_SECONDS = 30.0
"""Seconds without progress after which a reader is cut off."""


class DumpMethods:
    """`DumpState`."""

    def __init__(self, dumps: StateDumps, names: Names, access: Access, audit: Audit) -> None:
        """`dumps` is shared with HTTP: there is one dump at a time."""
        self._dumps = dumps
        self._names = names
        self._access = access
        self._audit = audit

    def methods(self) -> dict[str, Method]:
        """The methods by name."""
        dump = self._audit.of("dump state", self._dump)
        return {"DumpState": watch_handler(pb.DumpStateRequest, dump)}

    async def _dump(self, request: pb.DumpStateRequest, context: Any) -> None:
        """Send the document in pieces, made in time slices."""
        if request.rm_id:
            self._names.rm(request.rm_id, context)
        peer = self._access.caller(context).peer
        try:
            async with self._dumps.dump(request.rm_id, peer) as chunks:
                async for chunk in chunks:
                    async with asyncio.timeout(STALL_SECONDS):
                        response = pb.DumpStateResponse(json=chunk)
                        await context.write(response.SerializeToString())
        except DumpInProgress as error:
            raise exhausted(str(error), "DUMP_IN_PROGRESS") from None
        except TimeoutError:
            raise aborted("the dump was not read for too long", "SLOW_READER") from None
