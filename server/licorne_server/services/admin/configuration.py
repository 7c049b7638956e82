"""Queue configurations (spec § 13): read, validate, update."""

from collections.abc import Sequence
from functools import partial
from typing import Any

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
from licorne_core.errors import ConfigError
from licorne_core.ids import RmId
from licorne_core.views import Views
from licorne_server.access import Access
from licorne_server.caps import (
    MAX_CONFIG_BYTES,
    bytes_of,
    extra_problem,
    size_problem,
    text_problem,
)
from licorne_server.config_thread import VALIDATION, ConfigThread, Origin
from licorne_server.engine import Engine
from licorne_server.errors import config_refused, failed_precondition, invalid_argument
from licorne_server.errors_to_status import Method, unary_handler
from licorne_server.rms import Rms
from licorne_server.services.admin.audit import Audit
from licorne_server.services.admin.names import Names

log = structlog.get_logger(__name__)


class ConfigurationMethods:
    """`GetConfiguration`, `ValidateConfiguration` and `UpdateConfiguration`."""

    def __init__(
        self,
        engine: Engine,
        rms: Rms,
        views: Views,
        access: Access,
        names: Names,
        audit: Audit,
        thread: ConfigThread,
    ) -> None:
        """Over the engine, its RMs and the reports of its core; `thread` parses configurations."""
        self._thread = thread
        self._engine = engine
        self._rms = rms
        self._views = views
        self._access = access
        self._names = names
        self._audit = audit

    def methods(self) -> dict[str, Method]:
        """The methods by name."""
        return {
            "GetConfiguration": unary_handler(pb.GetConfigurationRequest, self._get),
            "ValidateConfiguration": unary_handler(pb.ValidateConfigurationRequest, self._validate),
            "UpdateConfiguration": unary_handler(
                pb.UpdateConfigurationRequest,
                self._audit.of("update configuration", self._update, "policy_group", by_rm=True),
            ),
        }

    async def _get(self, request: pb.GetConfigurationRequest, context: Any) -> Message:
        report = self._names.rm(request.rm_id, context)
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
        self._names.rm(request.rm_id, context)
        caller = Origin(self._access.caller(context).party, f"RM {request.rm_id}")
        async with self._rms.lock(request.rm_id):
            command = UpdateConfiguration(
                rm_id=RmId(request.rm_id),
                policy_group=request.policy_group,
                config=await self._thread.parse(caller, request.config),
                extra_config=dict(request.extra_config),
            )
            changed = self._outcome(await self._engine.submit(command))
            checksum = self._views.rm(request.rm_id).checksum
        return pb.UpdateConfigurationResponse(changed=changed, checksum=checksum)

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


def _check_size(config: str) -> None:
    problem = size_problem("config", bytes_of((config,)), MAX_CONFIG_BYTES)
    if problem:
        raise invalid_argument(problem, "config")
