"""Queue configurations (spec § 13): read, validate and update.

It also has the history of RMs' configurations (list, roll back), and reloads the file of the default.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

from google.protobuf.message import Message

from licorne.v1 import admin_pb2 as pb
from licorne_core.config import load
from licorne_core.config.schema import Configuration
from licorne_core.values.errors import ConfigError
from licorne_core.values.ids import RmId
from licorne_server.rms.budgets.definitions import Budgets
from licorne_server.rms.reloading import Changes
from licorne_server.services.admin.acts import Rights
from licorne_server.services.admin.messages import Differences, differences, problem_message
from licorne_server.services.calls import Handler, unary_handler
from licorne_server.store.configurations.applying import Change
from licorne_server.store.configurations.default_file import DefaultFileError
from licorne_server.store.configurations.revisions import Revision, Revisions, Source
from licorne_server.store.configurations.thread import VALIDATION, ConfigThread, Origin
from licorne_server.wire.caps import (
    MAX_CONFIG_BYTES,
    bytes_of,
    comment_problem,
    extra_problem,
    size_problem,
    text_problem,
)
from licorne_server.wire.errors import config_refused, invalid_argument, not_found

MAX_ANSWER_BYTES = 4 * 1024 * 1024
"""Maximum number of bytes of the texts in one answer."""


class ConfigurationMethods:
    """The calls for the configurations of RMs, their histories, and the default."""

    def __init__(self, rights: Rights, thread: ConfigThread, changes: Changes, budgets: Budgets) -> None:
        """Serve the configurations of RMs; `thread` parses them, and `budgets` are reloaded too."""
        self._rights = rights
        self._thread = thread
        self._changes = changes
        self._budgets = budgets

    def methods(self) -> dict[str, Handler]:
        """The methods by name."""
        of, common = self._rights.audited, ("base_revision", "comment")
        update = of("update configuration", self._update, "policy_group", *common, by_rm=True)
        roll_back = of("roll back configuration", self._roll_back, "revision", *common, by_rm=True)
        reload = of("reload configuration", self._reload, "message")
        return {
            "GetConfiguration": unary_handler(pb.GetConfigurationRequest, self._get),
            "ValidateConfiguration": unary_handler(pb.ValidateConfigurationRequest, self._validate),
            "UpdateConfiguration": unary_handler(pb.UpdateConfigurationRequest, update),
            "ListConfigurations": unary_handler(pb.ListConfigurationsRequest, self._list),
            "RollBackConfiguration": unary_handler(pb.RollBackConfigurationRequest, roll_back),
            "ReloadConfiguration": unary_handler(pb.ReloadConfigurationRequest, reload),
        }

    async def _get(self, request: pb.GetConfigurationRequest, context: Any) -> Message:
        report = self._rights.known_rm(request.rm_id, context)
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
            self._rights.known_rm(request.compare_rm_id, context)
            running = self._changes.configurations.get(request.compare_rm_id).current.text
        try:
            configuration, compared = await self._thread.run(
                Origin(self._rights.access.caller(context).peer, VALIDATION),
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
        ):
            if problem:
                raise invalid_argument(problem, name)
        operator = self._rights.access.caller(context).operator

        def wanted() -> tuple[str, dict[str, Any]]:
            source = Source.OPERATOR if operator else Source.RM
            about = {"policy_group": request.policy_group, "extra_config": request.extra_config}
            return request.config, {"source": source, "comment": request.comment, **about}

        return pb.UpdateConfigurationResponse(**await self._change(request, context, wanted))

    async def _roll_back(self, request: pb.RollBackConfigurationRequest, context: Any) -> Message:
        def wanted() -> tuple[str, dict[str, Any]]:
            revisions = self._changes.configurations.get(request.rm_id)
            number = request.revision or _before(revisions)
            found = _found(revisions, number)
            comment = request.comment or f"rollback to revision {number}"
            about = {"comment": comment, "extra_config": found.extra_config}
            return found.text, {"source": Source.ROLLBACK, **about}

        return pb.RollBackConfigurationResponse(**await self._change(request, context, wanted))

    async def _change(
        self,
        request: pb.UpdateConfigurationRequest | pb.RollBackConfigurationRequest,
        context: Any,
        wanted: Callable[[], tuple[str, dict[str, Any]]],
    ) -> dict[str, Any]:
        """Change an RM's configuration; return the fields of the answer.

        `wanted` returns the text and the other fields of the `Change`; it is called when this change has its
        turn.
        """
        problem = comment_problem("comment", request.comment)
        if problem:
            raise invalid_argument(problem, "comment")
        self._rights.known_rm(request.rm_id, context)
        peer = self._rights.access.caller(context).peer
        applier = self._changes.applier
        async with self._changes.configuring(request.rm_id):
            self._rights.known_rm(request.rm_id, context)
            applier.check_base(request.rm_id, request.base_revision)
            text, about = wanted()
            config = await self._thread.parse(Origin(peer, f"RM {request.rm_id}"), text)
            change = Change(rm_id=RmId(request.rm_id), config=config, by=peer, **about)
            applied = await applier.apply(change)
        return {
            "changed": applied.changed,
            "checksum": applied.revision.checksum,
            "revision": applied.revision.number,
            "persistent": applied.persistent,
            "registered": applied.registered,
        }

    async def _list(self, request: pb.ListConfigurationsRequest, context: Any) -> Message:
        self._rights.known_rm(request.rm_id, context)
        revisions = self._changes.configurations.get(request.rm_id)
        wanted = reversed(revisions.kept)
        if request.revision:
            wanted = iter([_found(revisions, request.revision)])
        answer = pb.ListConfigurationsResponse()
        left = MAX_ANSWER_BYTES if request.with_config else -1
        for revision in wanted:
            size = revision.size + len(revision.extra)
            left = left - size if left >= 0 else left
            answer.revisions.append(_shown(revision, with_config=left >= 0))
        return answer

    async def _reload(self, _: pb.ReloadConfigurationRequest, __: Any) -> Message:
        reloader = self._changes.reloader
        answer = pb.ReloadConfigurationResponse()
        try:
            if self._budgets.has_file:
                answer.budgets_changed = await self._budgets.reload()
            if reloader.has_file or not self._budgets.has_file:
                reloaded = await reloader.reload()
                answer.changed, answer.checksum = reloaded.changed, reloaded.checksum
                answer.rms.extend(
                    pb.ReloadedRm(
                        rm_id=rm.rm_id, changed=rm.changed, revision=rm.revision, refusal=rm.refusal
                    )
                    for rm in reloaded.rms
                )
        except DefaultFileError as error:
            raise config_refused(str(error), error.problems) from None
        return answer


def _compared(config: str, running: str | None, *, strict: bool) -> tuple[Configuration, Differences | None]:
    """The parsed configuration, and its differences from the running configuration if that is valid.

    Raises:
        ConfigError: the configuration is invalid.
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


def _before(revisions: Revisions) -> int:
    """The number of the revision before the revision in force, for a rollback.

    Raises:
        CallError: NOT_FOUND, the revision in force is the first.
    """
    number = revisions.current.number - 1
    if not number:
        raise not_found(f"RM {revisions.rm_id} has had no other configuration than the first")
    return number


def _found(revisions: Revisions, number: int) -> Revision:
    """The revision with this number.

    Raises:
        CallError: NOT_FOUND, the revision is not retained.
    """
    found = revisions.find(number)
    if found is None:
        first, last = revisions.kept[0].number, revisions.current.number
        retained = f"{first} to {last} are" if first < last else f"{last} is"
        raise not_found(f"revision {number} of RM {revisions.rm_id} is not kept: {retained}")
    return found


def _shown(revision: Revision, *, with_config: bool) -> pb.ConfigurationRevision:
    return pb.ConfigurationRevision(
        revision=revision.number,
        checksum=revision.checksum,
        source=revision.source.value,
        time=revision.time,
        by=revision.by,
        comment=revision.comment,
        config=revision.text if with_config else "",
        extra_config=revision.extra_config if with_config else {},
        instead_of=revision.instead_of,
    )
