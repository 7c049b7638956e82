"""Queue configurations (spec § 13): read, validate, update."""

from functools import partial
from typing import Any

from google.protobuf.message import Message

from licorne.v1 import admin_pb2 as pb
from licorne_core.config import load
from licorne_core.config.schema import Configuration
from licorne_core.values.errors import ConfigError
from licorne_core.values.ids import RmId
from licorne_server.configurations import Change, Changes, Source
from licorne_server.configurations.thread import VALIDATION, ConfigThread, Origin
from licorne_server.security.access import Access
from licorne_server.services.admin.audit import Audit
from licorne_server.services.admin.differences import Differences, differences
from licorne_server.services.admin.names import Names
from licorne_server.services.admin.plan_messages import problem_message
from licorne_server.services.statuses import Method, unary_handler
from licorne_server.wire.caps import (
    MAX_CONFIG_BYTES,
    bytes_of,
    comment_problem,
    extra_problem,
    size_problem,
    text_problem,
)
from licorne_server.wire.errors import invalid_argument


class ConfigurationMethods:
    """`GetConfiguration`, `ValidateConfiguration` and `UpdateConfiguration`."""

    def __init__(
        self,
        access: Access,
        names: Names,
        audit: Audit,
        thread: ConfigThread,
        changes: Changes,
    ) -> None:
        """Over the configurations of RMs; `thread` parses configurations."""
        self._thread = thread
        self._access = access
        self._names = names
        self._audit = audit
        self._changes = changes

    def methods(self) -> dict[str, Method]:
        """The methods by name."""
        return {
            "GetConfiguration": unary_handler(pb.GetConfigurationRequest, self._get),
            "ValidateConfiguration": unary_handler(pb.ValidateConfigurationRequest, self._validate),
            "UpdateConfiguration": unary_handler(
                pb.UpdateConfigurationRequest,
                self._audit.of(
                    "update configuration",
                    self._update,
                    "policy_group",
                    "base_revision",
                    "comment",
                    by_rm=True,
                ),
            ),
        }

    async def _get(self, request: pb.GetConfigurationRequest, context: Any) -> Message:
        report = self._names.known_rm(request.rm_id, context)
        current = self._changes.configurations.get(request.rm_id).current
        return pb.GetConfigurationResponse(
            rm_id=request.rm_id,
            policy_group="" if report is None else report.policy_group,
            config=current.text,
            checksum=current.checksum,
            extra_config=current.extra_config if report is None else report.extra_config,
            revision=current.number,
            source=current.source.value,
            time=current.time,
            by=current.by,
            comment=current.comment,
            instead_of=current.instead_of,
            registered=report is not None,
        )

    async def _validate(self, request: pb.ValidateConfigurationRequest, context: Any) -> Message:
        _check_size(request.config)
        running = None
        if request.compare_rm_id:
            self._names.known_rm(request.compare_rm_id, context)
            running = self._changes.configurations.get(request.compare_rm_id).current.text
        try:
            configuration, compared = await self._thread.run(
                Origin(self._access.caller(context).peer, VALIDATION),
                partial(_compared, request.config, running, strict=request.strict),
                len(request.config) + len(running or ""),
            )
        except ConfigError as error:
            problems = map(problem_message, error.problems)
            return pb.ValidateConfigurationResponse(reason=str(error), problems=problems)
        return pb.ValidateConfigurationResponse(
            allowed=True,
            warnings=configuration.warnings,
            checksum=configuration.checksum,
            compared=compared is not None,
            changes=compared.changes if compared else (),
            change_count=compared.total if compared else 0,
        )

    async def _update(self, request: pb.UpdateConfigurationRequest, context: Any) -> Message:
        _check_size(request.config)
        for name, problem in (
            ("policy_group", text_problem("policy_group", request.policy_group)),
            ("extra_config", extra_problem("extra_config", request.extra_config)),
            ("comment", comment_problem(request.comment)),
        ):
            if problem:
                raise invalid_argument(problem, name)
        self._names.known_rm(request.rm_id, context)
        caller = self._access.caller(context)
        applier = self._changes.applier
        async with self._changes.configuring(request.rm_id):
            self._names.known_rm(request.rm_id, context)
            applier.check_base(request.rm_id, request.base_revision)
            origin = Origin(caller.peer, f"RM {request.rm_id}")
            change = Change(
                rm_id=RmId(request.rm_id),
                config=await self._thread.parse(origin, request.config),
                source=Source.OPERATOR if caller.operator else Source.RM,
                by=caller.peer,
                comment=request.comment,
                policy_group=request.policy_group,
                extra_config=request.extra_config,
            )
            applied = await applier.apply(change)
        return pb.UpdateConfigurationResponse(
            changed=applied.changed,
            checksum=applied.revision.checksum,
            revision=applied.revision.number,
            persistent=applied.persistent,
            registered=applied.registered,
        )


def _compared(
    config: str, running: str | None, *, strict: bool
) -> tuple[Configuration, Differences | None]:
    """The configuration, and its differences from the one that runs, if that is valid.

    Raises:
        ConfigError: it is not valid itself.
    """
    new = load(config, strict=strict, required=bool(config))
    if running is None:
        return new, None
    try:
        return new, differences(load(running), new)
    except ConfigError:
        return new, None


def _check_size(config: str) -> None:
    problem = size_problem("config", bytes_of((config,)), MAX_CONFIG_BYTES)
    if problem:
        raise invalid_argument(problem, "config")
