"""`licorne.v1.Admin`: queue configurations (spec § 13), and RMs that are to be forgotten."""

from collections.abc import Sequence
from functools import partial
from typing import Any

import grpc
import structlog
from google.protobuf.message import Message

from licorne.v1 import admin_pb2 as pb
from licorne_core.commands import UpdateConfiguration
from licorne_core.config import load
from licorne_core.effects import (
    ConfigurationRefused,
    ConfigurationUpdated,
    Effect,
    NotRegistered,
)
from licorne_core.errors import ConfigError, NotFound
from licorne_core.ids import RmId
from licorne_core.reports import RmReport
from licorne_core.views import Views
from licorne_server.access import Access
from licorne_server.caps import (
    MAX_CONFIG_BYTES,
    bytes_of,
    extra_problem,
    rm_id_problem,
    size_problem,
    text_problem,
)
from licorne_server.config_thread import VALIDATION, ConfigThread, Origin
from licorne_server.departures import Departures
from licorne_server.engine import Engine
from licorne_server.errors import config_refused, failed_precondition, invalid_argument
from licorne_server.errors_to_status import unary_handler
from licorne_server.rms import Rms, configuring

log = structlog.get_logger(__name__)


class AdminService:
    """The calls of those who administer RMs."""

    name = "licorne.v1.Admin"

    def __init__(
        self,
        engine: Engine,
        rms: Rms,
        views: Views,
        access: Access,
        thread: ConfigThread,
        departures: Departures,
    ) -> None:
        """Over the engine, its RMs and the reports of its core.

        `thread` parses configurations; `departures` forgets RMs.
        """
        self._departures = departures
        self._thread = thread
        self._engine = engine
        self._rms = rms
        self._views = views
        self._access = access

    def handler(self) -> grpc.GenericRpcHandler:
        """The methods by name, bytes in and bytes out."""
        return grpc.method_handlers_generic_handler(
            self.name,
            {
                "GetConfiguration": unary_handler(pb.GetConfigurationRequest, self._get),
                "ValidateConfiguration": unary_handler(
                    pb.ValidateConfigurationRequest, self._validate
                ),
                "UpdateConfiguration": unary_handler(pb.UpdateConfigurationRequest, self._update),
                "ForgetRm": unary_handler(pb.ForgetRmRequest, self._forget),
            },
        )

    async def _get(self, request: pb.GetConfigurationRequest, context: Any) -> Message:
        report = self._rm(request.rm_id, context)
        return pb.GetConfigurationResponse(
            rm_id=report.rm_id,
            policy_group=report.policy_group,
            config=report.config,
            checksum=report.checksum,
            extra_config=report.extra_config,
        )

    async def _validate(self, request: pb.ValidateConfigurationRequest, context: Any) -> Message:
        _check_size(request.config)
        try:
            configuration = await self._thread.run(
                Origin(self._access.caller(context).party, VALIDATION),
                partial(load, request.config, strict=request.strict),
                len(request.config),
            )
        except ConfigError as error:
            problems = [
                pb.ConfigurationProblem(
                    path=problem.path,
                    message=problem.message,
                    line=problem.line,
                    column=problem.column,
                )
                for problem in error.problems
            ]
            return pb.ValidateConfigurationResponse(reason=str(error), problems=problems)
        return pb.ValidateConfigurationResponse(
            allowed=True, warnings=configuration.warnings, checksum=configuration.checksum
        )

    async def _update(self, request: pb.UpdateConfigurationRequest, context: Any) -> Message:
        _check_size(request.config)
        for name, problem in (
            ("policy_group", text_problem("policy_group", request.policy_group)),
            ("extra_config", extra_problem("extra_config", request.extra_config)),
        ):
            if problem:
                raise invalid_argument(problem, name)
        self._rm(request.rm_id, context)
        caller = Origin(self._access.caller(context).party, f"RM {request.rm_id}")
        async with configuring(self._rms, request.rm_id, self._engine.now):
            command = UpdateConfiguration(
                rm_id=RmId(request.rm_id),
                policy_group=request.policy_group,
                config=await self._thread.parse(caller, request.config),
                extra_config=dict(request.extra_config),
            )
            changed = self._outcome(await self._engine.submit(command))
            checksum = self._views.rm(request.rm_id).checksum
        return pb.UpdateConfigurationResponse(changed=changed, checksum=checksum)

    async def _forget(self, request: pb.ForgetRmRequest, context: Any) -> Message:
        self._rm(request.rm_id, context)
        rm = self._rms.get(request.rm_id, "ForgetRm")
        log.info("forgetting asked for", rm_id=rm.rm_id, force=request.force, peer=context.peer())
        await self._departures.forget(rm, force=request.force)
        return pb.ForgetRmResponse()

    @staticmethod
    def _outcome(effects: Sequence[Effect]) -> bool:
        """Whether an update changed anything.

        Raises:
            CallError: it was refused.
        """
        changed = False
        for effect in effects:
            match effect:
                case NotRegistered():
                    raise failed_precondition(effect.reason, "RM_NOT_REGISTERED")
                case ConfigurationRefused():
                    log.warning("configuration refused", rm_id=effect.rm_id, reason=effect.reason)
                    raise config_refused(effect.reason, effect.problems)
                case ConfigurationUpdated():
                    changed = effect.changed
                    log.info("configuration updated", rm_id=effect.rm_id, changed=changed)
        return changed

    def _rm(self, rm_id: str, context: Any) -> RmReport:
        """The RM that a request names.

        Raises:
            CallError: it is not registered, or the caller may not see it.
        """
        problem = rm_id_problem(rm_id)
        if problem:
            raise invalid_argument(problem, "rm_id")
        self._access.check_read(context, rm_id)
        try:
            return self._views.rm(rm_id)
        except NotFound:
            raise failed_precondition(
                f"RM {rm_id} has no active partitions, make sure it is registered",
                "RM_NOT_REGISTERED",
            ) from None


def _check_size(config: str) -> None:
    problem = size_problem("config", bytes_of((config,)), MAX_CONFIG_BYTES)
    if problem:
        raise invalid_argument(problem, "config")
