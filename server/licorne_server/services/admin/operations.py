"""Operations on nodes, applications, queues, RMs and the log, and the state dump (spec § 12.5)."""

import asyncio
from bisect import bisect_right
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from itertools import islice
from typing import Any, TypeVar

from google.protobuf.message import Message

from licorne.v1 import admin_pb2 as pb
from licorne_core.extensions.drains.messages import (
    DrainNode,
    NodeDrainBegun,
    NodeSchedulableSet,
    SetNodeSchedulable,
)
from licorne_core.extensions.queue_stops.messages import QueueStoppedSet, SetQueueStopped
from licorne_core.extensions.stops.messages import ApplicationStopped, StopApplication
from licorne_core.messages.commands import Command
from licorne_core.messages.effects import Effect, NotRegistered, OperatorRefusal, OperatorRefused
from licorne_core.messages.operators import OperatorMark
from licorne_core.values.ids import AppId, NodeId, PartitionName, RmId, normalize_partition
from licorne_server.configurations.history import Configurations
from licorne_server.configurations.marks import MAX_MARKS, Mark, MarkKind
from licorne_server.coordination.budgets import MemberBudgets
from licorne_server.coordination.escrow import NotReleased
from licorne_server.coordination.store import StoreError
from licorne_server.engine.engine import Engine
from licorne_server.http.dumps import DumpInProgress, StateDumps
from licorne_server.http.members import Unreachable
from licorne_server.process.fair import TimeSlices
from licorne_server.rms.eviction import Eviction
from licorne_server.rms.registry import Rms
from licorne_server.rms.rm_log import RmLogLevels
from licorne_server.services.admin.rights import Rights
from licorne_server.services.calls import Handler, unary_handler, watch_handler
from licorne_server.services.paging import Page, filled
from licorne_server.services.reports import mark_message
from licorne_server.telemetry.logs import levels
from licorne_server.wire.caps import MAX_QUEUE_PATH, bytes_of, id_problem, size_problem, text_problem
from licorne_server.wire.errors import (
    CallError,
    aborted,
    exhausted,
    failed_precondition,
    invalid_argument,
    not_found,
    unavailable,
)
from licorne_server.wire.responses import nanoseconds

MAX_REASON_BYTES = 1024
"""Bytes of the reason for ending an application; it is stored with the application."""

MAX_DRAIN_SECONDS = 7 * 24 * 3600
"""Longest time of a drain."""

MAX_WANTED = 100
"""RMs of a page: each may want dozens of levels, and an answer is serialized in one step."""

STALL_SECONDS = 30.0
"""Seconds without progress after which a reader is cut off."""

T = TypeVar("T", bound=Effect)
Marked = TypeVar("Marked", NodeSchedulableSet, NodeDrainBegun, QueueStoppedSet)


class OperatorMethods:
    """The calls that change what the core or the process does, and the state dump."""

    def __init__(
        self,
        rights: Rights,
        engine: Engine,
        rms: Rms,
        eviction: Eviction,
        configurations: Configurations,
        dumps: StateDumps,
        time_slices: TimeSlices,
        log_levels: RmLogLevels,
        budgets: MemberBudgets,
    ) -> None:
        """Send commands to the engine.

        `eviction` forgets an RM, and its `configurations` and parts of `budgets` go with it. `dumps`
        is shared with HTTP: there is one dump at a time. `log_levels` are those requested by RMs;
        lists of them are made in `time_slices`.
        """
        self._rights = rights
        self._engine = engine
        self._rms = rms
        self._eviction = eviction
        self._configurations = configurations
        self._dumps = dumps
        self._time_slices = time_slices
        self._log_levels = log_levels
        self._budgets = budgets

    def methods(self) -> dict[str, Handler]:
        """The methods by name."""
        of = self._rights.audited
        drain = of("drain node", self._drain, "partition", "node_id", "deadline_seconds", "message")
        node = of("set node schedulable", self._node, "partition", "node_id", "schedulable", "message")
        stop = of("stop application", self._application, "partition", "application_id", "reason")
        queue = of("set queue stopped", self._queue, "partition", "queue", "stopped", "message")
        forget = of("forget RM", self._forget, "force")
        level = of("set log level", self._set_level, "logger", "level", "message")
        dump = of("dump state", self._dump, reads=True)
        return {
            "SetNodeSchedulable": unary_handler(pb.SetNodeSchedulableRequest, node),
            "DrainNode": unary_handler(pb.DrainNodeRequest, drain),
            "StopApplication": unary_handler(pb.StopApplicationRequest, stop),
            "SetQueueStopped": unary_handler(pb.SetQueueStoppedRequest, queue),
            "ForgetRm": unary_handler(pb.ForgetRmRequest, forget),
            "GetLogLevels": unary_handler(pb.GetLogLevelsRequest, self._levels),
            "SetLogLevel": unary_handler(pb.SetLogLevelRequest, level),
            "DumpState": watch_handler(pb.DumpStateRequest, dump),
        }

    async def _node(self, request: pb.SetNodeSchedulableRequest, context: Any) -> Message:
        self._check(request, context, ("node_id", id_problem("node_id", request.node_id)))
        command = SetNodeSchedulable(
            rm_id=RmId(request.rm_id),
            partition=request.partition,
            node_id=NodeId(request.node_id),
            schedulable=request.schedulable,
        )
        mark, on = (MarkKind.NODE, request.node_id), not request.schedulable
        done = await self._marked(command, NodeSchedulableSet, mark, request, context, on=on)
        return pb.SetNodeSchedulableResponse(changed=done.changed, allocations=done.allocations)

    async def _drain(self, request: pb.DrainNodeRequest, context: Any) -> Message:
        seconds = request.deadline_seconds
        late = f"deadline_seconds is {seconds}: at most {MAX_DRAIN_SECONDS}, which are 7 days"
        self._check(
            request,
            context,
            ("node_id", id_problem("node_id", request.node_id)),
            ("deadline_seconds", late if seconds > MAX_DRAIN_SECONDS else ""),
        )
        command = DrainNode(
            rm_id=RmId(request.rm_id),
            partition=request.partition,
            node_id=NodeId(request.node_id),
            seconds=float(seconds) if request.HasField("deadline_seconds") else None,
        )
        mark = (MarkKind.NODE, request.node_id)
        done = await self._marked(command, NodeDrainBegun, mark, request, context, on=True)
        return pb.DrainNodeResponse(allocations=done.terms.allocations, exempt=done.exempt)

    async def _application(self, request: pb.StopApplicationRequest, context: Any) -> Message:
        self._check(
            request,
            context,
            ("application_id", id_problem("application_id", request.application_id)),
            ("reason", size_problem("reason", bytes_of((request.reason,)), MAX_REASON_BYTES)),
            ("reason", text_problem("reason", request.reason, MAX_REASON_BYTES)),
        )
        command = StopApplication(
            rm_id=RmId(request.rm_id),
            partition=request.partition,
            app_id=AppId(request.application_id),
            reason=request.reason,
        )
        done = await self._carry_out(command, ApplicationStopped)
        return pb.StopApplicationResponse(allocations=done.allocations, asks=done.asks)

    async def _queue(self, request: pb.SetQueueStoppedRequest, context: Any) -> Message:
        problem = id_problem("queue", request.queue, MAX_QUEUE_PATH)
        self._check(request, context, ("queue", problem))
        command = SetQueueStopped(
            rm_id=RmId(request.rm_id),
            partition=request.partition,
            queue=request.queue,
            stopped=request.stopped,
        )
        mark = (MarkKind.QUEUE, request.queue.lower())
        done = await self._marked(command, QueueStoppedSet, mark, request, context, on=request.stopped)
        return pb.SetQueueStoppedResponse(changed=done.changed, state=done.state)

    def _check(self, request: Any, context: Any, *problems: tuple[str, str]) -> None:
        """Refuse invalid requests.

        Raises:
            CallError: INVALID_ARGUMENT with the field, or the RM is not registered.
        """
        partition = ("partition", text_problem("partition", request.partition, MAX_QUEUE_PATH))
        for field, problem in (partition, *problems):
            if problem:
                raise invalid_argument(problem, field)
        self._rights.rm(request.rm_id, context)

    async def _marked(
        self,
        command: SetNodeSchedulable | DrainNode | SetQueueStopped,
        wanted: type[Marked],
        of: tuple[MarkKind, str],
        request: Any,
        context: Any,
        *,
        on: bool,
    ) -> Marked:
        """Have the core do it, and note it for later registrations of the RM.

        What was so already keeps its mark.

        Raises:
            CallError: the core has refused it, or the RM has very many marks.
        """
        kind, name = of
        done_by = self._mark(request, context)
        rm_id = command.rm_id
        async with self._rms.lock(rm_id):
            self._rights.rm(rm_id, context)
            if on and not self._configurations.has_room_for_mark(rm_id):
                text = f"RM {rm_id} has {MAX_MARKS} cordoned nodes and stopped queues already"
                raise exhausted(text, "TOO_MANY_MARKS")
            mark = Mark(
                kind=kind,
                partition=PartitionName(normalize_partition(rm_id, command.partition) or command.partition),
                name=name,
                by=done_by.by,
                time=nanoseconds(done_by.time),
                why=done_by.message,
            )
            done = await self._carry_out(replace(command, mark=done_by), wanted)
            if isinstance(done, NodeDrainBegun):
                mark = replace(mark, drain=done.terms)
            elif not done.changed:
                return done
            self._configurations.mark(rm_id, mark, on=on)
        await self._configurations.keeper.written(rm_id)
        return done

    def _mark(self, request: Any, context: Any) -> OperatorMark:
        """The act of the caller, now, for the reason in the request's message.

        Raises:
            CallError: the message is too long.
        """
        problem = text_problem("message", request.message, MAX_REASON_BYTES)
        if problem:
            raise invalid_argument(problem, "message")
        by = self._rights.access.caller(context).peer
        return OperatorMark(by=by, time=self._engine.now(), message=request.message)

    async def _carry_out(self, command: Command, wanted: type[T]) -> T:
        """Have the core do it; what came of it.

        Raises:
            CallError: the core has refused it.
        """
        return outcome(await self._engine.submit(command), wanted)

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
        await self._configurations.keeper.written(rm_id)
        try:
            with suppress(NotReleased):  # it has come back
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

        # Rows are made inside the response: to copy them into it would take as long as to make
        # them, in one step.
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
        await self._configurations.log_levels.set(request.logger, request.level, self._mark(request, context))
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


def outcome(effects: Sequence[Effect], wanted: type[T]) -> T:
    """The effect of that kind: what came of an operator's command.

    Raises:
        CallError: the core has refused the command.
    """
    for effect in effects:
        if isinstance(effect, wanted):
            return effect
        if isinstance(effect, OperatorRefused):
            raise _refused(effect)
        if isinstance(effect, NotRegistered):
            raise failed_precondition(effect.reason, "RM_NOT_REGISTERED")
    raise AssertionError(f"there is no {wanted.__name__} among {effects}")


def _refused(effect: OperatorRefused) -> CallError:
    """The status for a refusal of the core."""
    match effect.refusal:
        case OperatorRefusal.NOT_FOUND:
            return not_found(effect.reason)
        case OperatorRefusal.APPLICATION_OVER:
            return failed_precondition(effect.reason, "APPLICATION_OVER")
        case OperatorRefusal.QUEUE_DRAINING:
            return failed_precondition(effect.reason, "QUEUE_DRAINING")
        case OperatorRefusal.NOT_POSSIBLE:
            return failed_precondition(effect.reason, "CANNOT_MOVE")
