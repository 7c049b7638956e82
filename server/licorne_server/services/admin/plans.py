"""What-if plans of a configuration, of a submission and of a start, computed on copies."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from itertools import islice, product
from typing import Any

from google.protobuf.message import Message

from licorne.v1 import admin_pb2 as pb
from licorne_core.config import SubmittedConfig, submitted
from licorne_core.config.schema import Configuration
from licorne_core.messages.commands import NewApplication, UpdateConfiguration
from licorne_core.messages.plans import (
    FREED_NODE,
    ConfigurationPlan,
    ConfigurationPlanRefused,
    StartChange,
    StartTrial,
    WaitingAskName,
)
from licorne_core.scheduler import Scheduler
from licorne_core.values.asks import Ask
from licorne_core.values.errors import ConfigError, NotFound, Problem, shown
from licorne_core.values.ids import AllocationKey, AppId, RmId
from licorne_server.engine.copied_process import Spent, apart
from licorne_server.engine.copies import Copies
from licorne_server.process.fair import TimeSlices, walked
from licorne_server.rms.registry import Rms
from licorne_server.rms.reloading import Changes
from licorne_server.services.admin.acts import Rights
from licorne_server.services.admin.messages import (
    configuration_plan,
    refused_plan,
    start_advice,
    start_trial,
    submission_plan,
)
from licorne_server.services.admin.submission_text import MAX_ASKS, read_submission_text
from licorne_server.services.calls import Handler, unary_handler
from licorne_server.store.configurations.thread import ConfigThread, Origin
from licorne_server.wire.asks import AskReader
from licorne_server.wire.caps import MAX_CONFIG_BYTES, bytes_of, id_problem, size_problem, text_problem
from licorne_server.wire.errors import CallError, config_refused, invalid_argument, text_refused
from licorne_server.wire.framing import FIELD, Pace
from licorne_server.wire.items import BadItem
from licorne_server.wire.requests import new_application

NO_COPY_NOW = frozenset({"PLAN_PAUSE", "OUT_OF_MEMORY", "NO_COPY", "NO_COPIES"})
"""Reasons why a server makes no copy for any caller."""

FIELDS_OF_ASK = 32
"""Number of fields that are charged for each ask, in addition to its size."""

_PLANNED = b"+"
_REFUSED = b"-"


class PlanMethods:
    """`PlanConfiguration`, `PlanSubmission` and `PlanStart`."""

    def __init__(
        self,
        rights: Rights,
        rms: Rms,
        time_slices: TimeSlices,
        thread: ConfigThread,
        copies: Copies,
        changes: Changes,
    ) -> None:
        """Plan on `copies`.

        `thread` parses configurations, and `changes` has the revisions on which they are based. Work in the
        loop uses `time_slices`.
        """
        self._rms = rms
        self._time_slices = time_slices
        self._rights = rights
        self._thread = thread
        self._copies = copies
        self._changes = changes

    def methods(self) -> dict[str, Handler]:
        """The methods by name."""
        return {
            "PlanConfiguration": unary_handler(pb.PlanConfigurationRequest, self._configuration),
            "PlanSubmission": unary_handler(pb.PlanSubmissionRequest, self._submission),
            "PlanStart": unary_handler(pb.PlanStartRequest, self._start),
        }

    async def _configuration(self, request: pb.PlanConfigurationRequest, context: Any) -> Message | bytes:
        problem = size_problem("config", bytes_of((request.config,)), MAX_CONFIG_BYTES)
        if problem:
            raise invalid_argument(problem, "config")
        self._rights.rm(request.rm_id, context)
        peer = self._rights.access.caller(context).peer
        configurations = self._changes.configurations
        # An update without a text is a change to the default.
        config: SubmittedConfig = configurations.default.current
        if request.config:
            origin = Origin(peer, f"a plan for RM {request.rm_id}")
            work = partial(submitted, request.config)
            config = await self._thread.run(origin, work, len(request.config))
        rm_id = RmId(request.rm_id)
        known = await self._without_copy(request, context, peer, config)
        if known is not None:
            return known
        command = UpdateConfiguration(rm_id=rm_id, config=config)

        def check() -> None:
            self._rights.rm(request.rm_id, context)
            self._changes.applier.check_base(request.rm_id, request.base_revision)

        def base() -> int:
            return configurations.get(request.rm_id).current.number

        answer = await self._copies.ask(peer, rm_id, partial(_plan_configuration, base, command), check)
        if answer.startswith(_PLANNED):
            return answer.removeprefix(_PLANNED)
        refused = pb.ValidateConfigurationResponse.FromString(answer.removeprefix(_REFUSED))
        raise config_refused(
            refused.reason,
            [
                Problem(message=one.message, path=one.path, line=one.line, column=one.column)
                for one in refused.problems
            ],
        )

    async def _without_copy(
        self,
        request: pb.PlanConfigurationRequest,
        context: Any,
        peer: str,
        config: SubmittedConfig,
    ) -> Message | None:
        """The plan if the configuration changes nothing, so that no copy is needed; else None.

        Raises:
            CallError: the configuration would be refused, or the base is stale.
        """
        async with self._time_slices.slice(peer):
            report = self._rights.rm(request.rm_id, context)
            self._changes.applier.check_base(request.rm_id, request.base_revision)
            refused = self._changes.check(report.rm_id, config)
            if refused is not None:
                raise config_refused(refused.reason, refused.problems)
            if not isinstance(config, Configuration) or config.checksum != report.checksum:
                return None
            plan = ConfigurationPlan(checksum=config.checksum, changed=False, warnings=config.warnings)
            base = self._changes.configurations.get(request.rm_id).current.number
            return configuration_plan(plan, base)

    async def _submission(self, request: pb.PlanSubmissionRequest, context: Any) -> Message | bytes:
        self._rights.rm(request.rm_id, context)
        peer = self._rights.access.caller(context).peer
        if request.text:
            request = await self._described(request, peer)
        new, asks = await read_submission(request, self._rms.pace())
        rm_id = RmId(request.rm_id)
        return await self._copies.ask(
            peer,
            rm_id,
            partial(_plan_submission, rm_id, new, asks),
            partial(self._rights.rm, request.rm_id, context),
        )

    async def _start(self, request: pb.PlanStartRequest, context: Any) -> Message | bytes:
        self._rights.rm(request.rm_id, context)
        for field in ("application_id", "allocation_key", "partition"):
            value = getattr(request, field)
            problem = text_problem(field, value) if field == "partition" else id_problem(field, value)
            if problem:
                raise invalid_argument(problem, field)
        peer = self._rights.access.caller(context).peer
        name = WaitingAskName(
            RmId(request.rm_id),
            request.partition,
            AppId(request.application_id),
            AllocationKey(request.allocation_key),
        )
        lacks, slices = self._copies.scheduler.start_lacks, partial(self._time_slices.slice, peer)
        # An ask that is not waiting is refused at the first step, without a copy.
        await walked(islice(lacks(name), 1), slices)
        check = partial(self._rights.rm, request.rm_id, context)
        try:
            answer = await self._copies.ask(peer, name.rm_id, partial(_plan_start, name), check)
        except CallError as refused:
            if refused.reason not in NO_COPY_NOW:
                raise
            [lacking] = await walked(lacks(name), slices)
            return pb.PlanStartResponse(not_tried=refused.message, advice=start_advice(lacking))
        if answer.startswith(_PLANNED):
            return answer.removeprefix(_PLANNED)
        raise NotFound(answer.removeprefix(_REFUSED).decode())

    async def _described(self, request: pb.PlanSubmissionRequest, peer: str) -> pb.PlanSubmissionRequest:
        """Parse the submission text of a request.

        Raises:
            CallError: INVALID_ARGUMENT: the text is invalid or too large, or the request has further fields.
        """
        problem = size_problem("text", bytes_of((request.text,)), MAX_CONFIG_BYTES)
        if not problem and (request.HasField("application") or request.asks):
            problem = "text: it is given in place of application and asks, and these are given too"
        if problem:
            raise invalid_argument(problem, "text")
        origin = Origin(peer, f"a submission to RM {request.rm_id}")
        work = partial(read_submission_text, request.text)
        try:
            submission = await self._thread.run(origin, work, len(request.text))
        except ConfigError as error:
            raise text_refused("text", str(error), error.problems) from None
        return pb.PlanSubmissionRequest(
            rm_id=request.rm_id, application=submission.application, asks=submission.asks
        )


async def read_submission(request: pb.PlanSubmissionRequest, pace: Pace) -> tuple[NewApplication, list[Ask]]:
    """Read the application and its asks in parts, so that other tasks can run in between.

    Raises:
        CallError: INVALID_ARGUMENT, naming the field.
    """
    if len(request.asks) > MAX_ASKS:
        message = f"asks: {len(request.asks)} asks, at most {MAX_ASKS} are allowed"
        raise invalid_argument(message, "asks")
    await pace.begin(request.ByteSize())
    raw = request.application.SerializeToString()
    try:
        new = new_application(raw)
    except BadItem as problem:
        raise invalid_argument(f"application: {problem}", "application") from None
    reader = AskReader(request.rm_id)
    seen: set[str] = set()
    asks: list[Ask] = []
    for number, wire in enumerate(request.asks):
        if pace.spend(len(raw) + FIELD * FIELDS_OF_ASK):
            await pace.rest()
        field = f"asks[{number}]"
        raw = wire.SerializeToString()
        try:
            ask = reader.read(raw)
        except BadItem as problem:
            raise invalid_argument(f"{field}: {problem}", field) from None
        wrong = ""
        if ask.app_id != new.app_id:
            wrong = f"applicationID: '{shown(ask.app_id)}' is not the application that is submitted"
        elif ask.node_id is not None:
            wrong = f"nodeID: '{shown(ask.node_id)}', but an ask has no node yet"
        elif ask.key in seen:
            wrong = f"allocationKey: '{shown(ask.key)}' is given twice"
        if wrong:
            raise invalid_argument(f"{field}.{wrong}", f"{field}.{wrong.partition(':')[0]}")
        seen.add(ask.key)
        asks.append(replace(ask, partition=new.partition))
    return new, asks


def _plan_configuration(
    base: Callable[[], int],
    command: UpdateConfiguration,
    scheduler: Scheduler,
    now: float,
    spent: Spent,
) -> bytes:
    """The plan, or the refusal of the configuration; runs in the copy."""
    plan = scheduler.plan_configuration(command, now, spent)
    if isinstance(plan, ConfigurationPlanRefused):
        return _REFUSED + refused_plan(plan).SerializeToString()
    return _PLANNED + configuration_plan(plan, base()).SerializeToString()


def _plan_submission(
    rm_id: RmId,
    new: NewApplication,
    asks: list[Ask],
    scheduler: Scheduler,
    now: float,
    spent: Spent,
) -> bytes:
    """The plan; runs in a copy."""
    plan = scheduler.plan_submission(rm_id, new, asks, now, spent)
    return submission_plan(plan, new.app_id).SerializeToString()


TRIAL_SECONDS = 1
"""Seconds of CPU time after which a trial is ended."""

TRIAL_PART = 0.25
"""Share of these seconds within which a trial has to find an answer."""


def _plan_start(name: WaitingAskName, scheduler: Scheduler, now: float, spent: Spent) -> bytes:
    """The trials, each in a copy of its own; runs in a copy.

    The result of a search is confirmed in a fresh copy. One search frees a node, and another adds one. If
    neither finds enough, both run again without the other waiting asks.
    """

    def search(spent: Spent, *, alone: bool, adds_node: bool) -> StartTrial:
        return scheduler.plan_start(name, now, lambda: spent() / TRIAL_PART, adds_node=adds_node, alone=alone)

    def confirm(found: pb.StartTrial, spent: Spent) -> StartTrial:
        changes = [
            StartChange(
                kind=one.kind,
                holder=one.holder,
                name=one.name,
                path=one.path,
                amounts=dict(one.amounts),
                count=one.count,
                before=dict(one.before),
            )
            for one in found.changes
        ]
        return scheduler.plan_start(name, now, lambda: spent() / TRIAL_PART, changes=changes)

    response = pb.PlanStartResponse(complete=True)
    for alone, adds_node in product((False, True), repeat=2):
        if alone and response.trials and not adds_node:
            break
        found = _tried(partial(search, alone=alone, adds_node=adds_node))
        if isinstance(found, str):
            return _REFUSED + found.encode()
        trial = _tried(partial(confirm, found.trials[0])) if found.trials else found
        if not isinstance(trial, str):
            response.complete = response.complete and trial.complete
            response.trials.extend(trial.trials)
        if response.trials and not any(one.kind == FREED_NODE for one in response.trials[-1].changes):
            # No node was missing, so an additional node does not help.
            break
    return _PLANNED + response.SerializeToString()


def _tried(work: Callable[[Spent], StartTrial]) -> pb.PlanStartResponse | str:
    """A trial made in a copy; an answer without trials if that fails, or the reason of a refusal."""

    def told(spent: Spent) -> bytes:
        try:
            trial = work(spent)
        except NotFound as error:
            return _REFUSED + str(error).encode()
        trials = [start_trial(trial)] if trial.starts else []
        return _PLANNED + pb.PlanStartResponse(trials=trials, complete=trial.complete).SerializeToString()

    answer = apart(told, TRIAL_SECONDS)
    if answer is None:
        return pb.PlanStartResponse()
    if answer.startswith(_REFUSED):
        return answer.removeprefix(_REFUSED).decode()
    return pb.PlanStartResponse.FromString(answer.removeprefix(_PLANNED))
