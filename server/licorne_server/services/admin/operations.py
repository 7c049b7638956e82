"""Operations on RMs, on budgets over RMs and on the log, and the state dump (spec § 12.5)."""

import asyncio
from bisect import bisect_right
from contextlib import suppress
from functools import partial
from itertools import islice
from typing import Any

from google.protobuf.message import Message

from licorne.v1 import admin_pb2 as pb
from licorne_core.values.errors import ConfigError
from licorne_core.values.ids import RmId
from licorne_server.process.fair import TimeSlices
from licorne_server.reads.members import Unreachable
from licorne_server.reads.paging import Page, filled
from licorne_server.reads.reports import mark_message
from licorne_server.reads.sources import DumpInProgress, Dumps
from licorne_server.rms.budgets.definitions import refused
from licorne_server.rms.budgets.escrow import NotReleased
from licorne_server.rms.budgets.members import MemberBudgets
from licorne_server.rms.eviction import Eviction
from licorne_server.rms.rm_log import RmLogLevels
from licorne_server.services.admin.acts import Acts, Rights
from licorne_server.services.calls import Handler, unary_handler, watch_handler
from licorne_server.store.configurations.revisions import Source
from licorne_server.store.configurations.thread import Origin
from licorne_server.store.documents.documents import StoreError
from licorne_server.telemetry.logs import levels
from licorne_server.wire.caps import MAX_CONFIG_BYTES, bytes_of, comment_problem, rm_id_problem, size_problem
from licorne_server.wire.errors import aborted, exhausted, failed_precondition, invalid_argument, unavailable

MAX_WANTED = 100
"""Maximum number of RMs on a page: each may request dozens of levels, and a page is encoded in one step."""

STALL_SECONDS = 30.0
"""Seconds without progress after which a reader is cut off."""


class OperatorMethods:
    """The calls that change RMs or the process, and the state dump."""

    def __init__(
        self,
        acts: Acts,
        eviction: Eviction,
        dumps: Dumps,
        time_slices: TimeSlices,
        log_levels: RmLogLevels,
        budgets: MemberBudgets,
    ) -> None:
        """Serve the RMs of `acts`.

        `eviction` evicts an RM, whose `configurations` and slices of `budgets` are removed too. `dumps` is
        shared with HTTP: there is one dump at a time. `log_levels` has the levels that RMs request; lists of
        them are encoded in `time_slices`.
        """
        self._acts = acts
        self._rights = acts.rights
        self._rms = acts.rms
        self._configurations = acts.configurations
        self._eviction = eviction
        self._dumps = dumps
        self._time_slices = time_slices
        self._log_levels = log_levels
        self._budgets = budgets

    def methods(self) -> dict[str, Handler]:
        """The methods by name."""
        of = self._rights.audited
        forget = of("forget RM", self._forget, "force", "message")
        level = of("set log level", self._set_level, "logger", "level", "message")
        dump = of("dump state", self._dump, reads=True)
        return {
            "ForgetRm": unary_handler(pb.ForgetRmRequest, forget),
            "GetLogLevels": unary_handler(pb.GetLogLevelsRequest, self._levels),
            "SetLogLevel": unary_handler(pb.SetLogLevelRequest, level),
            "DumpState": watch_handler(pb.DumpStateRequest, dump),
        }

    async def _forget(self, request: pb.ForgetRmRequest, context: Any) -> Message:
        report = self._rights.known_rm(request.rm_id, context)
        rm_id, epoch = RmId(request.rm_id), None
        if report is not None:
            rm = self._rms.get(rm_id, "ForgetRm")
            epoch = rm.epoch
            await self._eviction.forget(rm, force=request.force)
        async with self._rms.lock(rm_id):
            if self._rms.find(rm_id) is None:
                self._configurations.forget(rm_id)
        await self._configurations.stored.written(rm_id)
        try:
            with suppress(NotReleased):  # the RM has registered again
                await self._budgets.release(rm_id, epoch)
        except StoreError as error:
            raise unavailable(f"RM {rm_id} is forgotten, but may still hold budgets: {error}") from None
        return pb.ForgetRmResponse()

    async def _levels(self, request: pb.GetLogLevelsRequest, context: Any) -> Message:
        self._rights.access.check_viewer(context)
        peer = self._rights.access.caller(context).peer
        given, marks = levels().given(), self._configurations.log_levels.marks
        response = pb.GetLogLevelsResponse(
            levels=given, marks={name: found for name, mark in marks.items() if (found := mark_message(mark))}
        )
        wanted = self._log_levels.wanted()

        def add(rm_id: RmId) -> pb.WantedLogLevels | None:
            its = wanted.get(rm_id)
            return response.wanted.add(rm_id=rm_id, levels=its) if its else None

        # Rows are created inside the response. Copying them into it would take one step as long as their
        # creation.
        ids = sorted(wanted)
        behind = islice(ids, bisect_right(ids, request.page_token), None)
        size = min(request.page_size or MAX_WANTED, MAX_WANTED)
        page = await filled(Page(behind, add, size=size), partial(self._time_slices.slice, peer))
        response.next_page_token = page.last or ""
        return response

    async def _set_level(self, request: pb.SetLogLevelRequest, context: Any) -> Message:
        problem = levels().problem(request.logger, request.level)
        if problem is not None:
            raise invalid_argument(problem.text, problem.field)
        await self._configurations.log_levels.set(
            request.logger, request.level, self._acts.mark(request, context)
        )
        return pb.SetLogLevelResponse(levels=levels().given())

    async def _dump(self, request: pb.DumpStateRequest, context: Any) -> None:
        """Send the document in pieces, made in time slices."""
        if request.rm_id:
            self._rights.rm(request.rm_id, context)
        peer = self._rights.access.caller(context).peer
        try:
            async with self._dumps.dump(request.rm_id, peer) as chunks:
                async for chunk in chunks:
                    async with asyncio.timeout(STALL_SECONDS):
                        response = pb.DumpStateResponse(json=chunk)
                        await context.write(response.SerializeToString())
        except DumpInProgress as error:
            raise exhausted(str(error), "DUMP_IN_PROGRESS") from None
        except Unreachable as error:
            raise unavailable(str(error)) from None
        except TimeoutError:
            raise aborted("the dump was not read for too long", "SLOW_READER") from None


class BudgetMethods:
    """The calls for budgets; changes are for operators, reads for viewers too."""

    def __init__(self, rights: Rights, budgets: MemberBudgets) -> None:
        """Serve the budgets of the server."""
        self._rights = rights
        self._budgets = budgets

    def methods(self) -> dict[str, Handler]:
        """The methods by name."""
        of = self._rights.audited
        update = of("update budgets", self._update, "base_revision", "comment")
        release = of("release budget", self._release, "message")
        return {
            "GetBudgets": unary_handler(pb.GetBudgetsRequest, self._get),
            "UpdateBudgets": unary_handler(pb.UpdateBudgetsRequest, update),
            "ReleaseBudget": unary_handler(pb.ReleaseBudgetRequest, release),
        }

    async def _get(self, _: pb.GetBudgetsRequest, context: Any) -> Message:
        self._rights.access.check_viewer(context)
        definition = self._budgets.definition.definition
        return pb.GetBudgetsResponse(
            budgets=definition.text,
            revision=definition.revision,
            source=definition.source.value if definition.revision else "",
            time=definition.time,
            by=definition.by,
            comment=definition.comment,
        )

    async def _update(self, request: pb.UpdateBudgetsRequest, context: Any) -> Message:
        for field, problem in (
            ("budgets", size_problem("budgets", bytes_of((request.budgets,)), MAX_CONFIG_BYTES)),
            ("comment", comment_problem("comment", request.comment)),
        ):
            if problem:
                raise invalid_argument(problem, field)
        peer = self._rights.access.caller(context).peer
        try:
            updated = await self._budgets.definition.update(
                request.budgets,
                request.base_revision,
                Source.OPERATOR,
                peer,
                request.comment,
                Origin(peer, "budgets"),
            )
        except ConfigError as error:
            raise refused(error) from None
        return pb.UpdateBudgetsResponse(
            changed=updated.changed,
            revision=updated.definition.revision,
            persistent=updated.persistent,
            warnings=updated.warnings,
        )

    async def _release(self, request: pb.ReleaseBudgetRequest, _: Any) -> Message:
        problem = rm_id_problem(request.rm_id)
        if problem:
            raise invalid_argument(problem, "rm_id")
        try:
            return pb.ReleaseBudgetResponse(budgets=await self._budgets.release(RmId(request.rm_id)))
        except NotReleased as error:
            raise failed_precondition(str(error), "RM_SERVED") from None
        except StoreError as error:
            raise unavailable(f"not all was released: {error}") from None
