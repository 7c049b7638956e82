"""Operators' calls to a running server: `licorne.v1.Admin` for programs."""

from collections.abc import AsyncGenerator, Iterable, Mapping
from contextlib import aclosing
from typing import TYPE_CHECKING

from grpc import aio

from licorne import fields, wire
from licorne.addresses import Target
from licorne.application_calls import LONG, ApplicationCalls
from licorne.calls import TIMEOUT, Calls, Standalone, check_arguments
from licorne.channel import Dialer
from licorne.model import DEFAULT_PARTITION, Application, Ask, placeholders
from licorne.options import TlsConfig, Token
from licorne.v1 import admin_pb2 as pb
from licorne.v1.admin_pb2_grpc import AdminStub

if TYPE_CHECKING:
    from licorne.v1.admin_pb2_grpc import AdminAsyncStub


def _stub(channel: aio.Channel) -> "AdminAsyncStub":
    return AdminStub(channel)


class AdminCalls(ApplicationCalls):
    """Operators' calls: the class of `Client.admin`, and of `Admin`, which is used without a `Client`.

    Answers are the messages of ``licorne/v1/admin.proto``, where every field is described. Calls about one RM
    raise ValueError if none is named. A partition of this RM is named by its bare name, any other one as in
    ``[rm1]default``.

    Every method raises `NotFound` for a missing subject, `Unauthorized` for a caller without the right,
    `ConnectionLost` if no answer arrives in time (the outcome is then unknown), `CallFailed` for any other
    refusal of the server, and `Closed`; TypeError for an argument of the wrong type, and ValueError for a
    number out of range.
    """

    async def configuration(self) -> pb.GetConfigurationResponse:
        """The RM's configuration in force, with its revision."""
        request = pb.GetConfigurationRequest(rm_id=self._rm("configuration"))
        return await self._calls.call(lambda channel: _stub(channel).GetConfiguration, request)

    async def configurations(
        self, *, revision: int = 0, with_config: bool = False
    ) -> list[pb.ConfigurationRevision]:
        """The revisions of the configuration, the latest first, or only number `revision`.

        With `with_config` they include their texts, up to 4 MiB in total.
        """
        check_arguments(revision=revision, with_config=with_config)
        request = pb.ListConfigurationsRequest(
            rm_id=self._rm("configurations"), revision=revision, with_config=with_config
        )
        answer = await self._calls.call(
            lambda channel: _stub(channel).ListConfigurations, request, at_least=LONG
        )
        return list(answer.revisions)

    async def validate_configuration(
        self, config: str, *, strict: bool = False, compare: bool = False
    ) -> pb.ValidateConfigurationResponse:
        """Validate a configuration; returns whether it is accepted, with all problems and warnings.

        With `strict`, warnings count as problems. With `compare`, the answer has the differences
        from the configuration that is in force for the RM.
        """
        check_arguments(config=config, strict=strict, compare=compare)
        compared = self._rm("validate_configuration") if compare else ""
        request = pb.ValidateConfigurationRequest(config=config, strict=strict, compare_rm_id=compared)
        return await self._calls.call(
            lambda channel: _stub(channel).ValidateConfiguration, request, at_least=LONG
        )

    async def plan_configuration(
        self, config: str, *, base_revision: int = 0
    ) -> pb.PlanConfigurationResponse:
        """The effect of applying a configuration now; nothing is changed.

        Raises ConfigInvalid and StaleRevision like `update_configuration`.
        """
        check_arguments(config=config, base_revision=base_revision)
        request = pb.PlanConfigurationRequest(
            rm_id=self._rm("plan_configuration"), config=config, base_revision=base_revision
        )
        return await self._calls.call(
            lambda channel: _stub(channel).PlanConfiguration, request, at_least=LONG
        )

    async def update_configuration(
        self,
        config: str,
        *,
        base_revision: int = 0,
        comment: str = "",
        extra_config: Mapping[str, str] | None = None,
        policy_group: str = "",
    ) -> pb.UpdateConfigurationResponse:
        """Put a configuration into force. An RM may change its own.

        `base_revision` is the revision on which the change is based; 0 replaces any. Raises StaleRevision if
        it is no longer in force, and ConfigInvalid; then nothing is changed.
        """
        extra = extra_config or {}
        check_arguments(config=config, comment=comment, policy_group=policy_group)
        check_arguments(base_revision=base_revision, extra_config=extra)
        request = pb.UpdateConfigurationRequest(
            rm_id=self._rm("update_configuration"),
            policy_group=policy_group,
            config=config,
            extra_config=extra,
            base_revision=base_revision,
            comment=comment,
        )
        return await self._calls.call(
            lambda channel: _stub(channel).UpdateConfiguration, request, at_least=LONG
        )

    async def roll_back_configuration(
        self, revision: int = 0, *, base_revision: int = 0, comment: str = ""
    ) -> pb.RollBackConfigurationResponse:
        """Put the text of an earlier revision into force; 0 is the revision before the current one.

        Raises StaleRevision like `update_configuration`, and NotFound for a revision that is not retained.
        """
        check_arguments(revision=revision, base_revision=base_revision, comment=comment)
        request = pb.RollBackConfigurationRequest(
            rm_id=self._rm("roll_back_configuration"),
            revision=revision,
            base_revision=base_revision,
            comment=comment,
        )
        return await self._calls.call(
            lambda channel: _stub(channel).RollBackConfiguration, request, at_least=LONG
        )

    async def reload_configuration(self, *, message: str = "") -> pb.ReloadConfigurationResponse:
        """Make the server read its `--config` file again; `message` is the reason. Raises ConfigInvalid."""
        check_arguments(message=message)
        return await self._calls.call(
            lambda channel: _stub(channel).ReloadConfiguration,
            pb.ReloadConfigurationRequest(message=message),
            at_least=LONG,
        )

    async def budgets(self) -> pb.GetBudgetsResponse:
        """The text of the budgets over RMs in force, with its revision."""
        return await self._calls.call(lambda channel: _stub(channel).GetBudgets, pb.GetBudgetsRequest())

    async def update_budgets(
        self, budgets: str, *, base_revision: int = 0, comment: str = ""
    ) -> pb.UpdateBudgetsResponse:
        """Replace all budgets.

        `base_revision` is the revision on which the change is based; 0 replaces any. Raises StaleRevision if
        it is no longer in force, and ConfigInvalid; then nothing is changed.
        """
        check_arguments(budgets=budgets, base_revision=base_revision, comment=comment)
        request = pb.UpdateBudgetsRequest(budgets=budgets, base_revision=base_revision, comment=comment)
        return await self._calls.call(lambda channel: _stub(channel).UpdateBudgets, request, at_least=LONG)

    async def release_budget(self, *, message: str = "") -> int:
        """Free the RM's parts of budgets while it is not served; returns the number of budgets.

        `message` is the reason. Raises CallFailed with the reason ``RM_SERVED`` while the RM is served.
        """
        check_arguments(message=message)
        request = pb.ReleaseBudgetRequest(rm_id=self._rm("release_budget"), message=message)
        return (await self._calls.call(lambda channel: _stub(channel).ReleaseBudget, request)).budgets

    async def members(self) -> pb.ListMembersResponse:
        """The members that share the RMs of the deployment, and the RMs of each.

        Raises CallFailed with the reason ``NO_COORDINATION`` if the server has no other members.
        """
        return await self._calls.call(lambda channel: _stub(channel).ListMembers, pb.ListMembersRequest())

    async def drain_member(
        self, member: str, drain: bool = True, *, message: str = ""
    ) -> pb.DrainMemberResponse:
        """Drain a member, or end the drain.

        `member` is a name or id. A drained member hands its RMs over to other members and accepts none.
        `message` is the reason, for people. Raises CallFailed like `members`.
        """
        check_arguments(member=member, drain=drain, message=message)
        request = pb.DrainMemberRequest(member=member, drain=drain, message=message)
        return await self._calls.call(lambda channel: _stub(channel).DrainMember, request)

    async def plan_submission(
        self, application: Application | str, asks: Iterable[Ask] = ()
    ) -> pb.PlanSubmissionResponse:
        """Where an application and its asks would be placed if submitted now; nothing is changed.

        The application may be a text in YAML or JSON that includes its asks. Placeholders of its task groups
        precede the asks. At most 1,000 asks and placeholders are allowed.

        Raises:
            Rejected: an item cannot be sent, as for `Client`.
            ValueError: `asks` are given in addition to a text.
        """
        text, items = "", list(asks)
        wired = None
        if isinstance(application, str):
            check_arguments(application=application)
            if items:
                raise ValueError("asks: those of an application that is a text are in the text")
            text = application
        else:
            [taken] = fields.applications([application])
            wired = wire.application(taken)
            items = [*placeholders(taken), *fields.asks(items)]
        request = pb.PlanSubmissionRequest(
            rm_id=self._rm("plan_submission"),
            application=wired,
            asks=[wire.allocation(ask) for ask in items],
            text=text,
        )
        return await self._calls.call(lambda channel: _stub(channel).PlanSubmission, request, at_least=LONG)

    async def set_node_schedulable(
        self, node_id: str, schedulable: bool, *, message: str = "", partition: str = DEFAULT_PARTITION
    ) -> pb.SetNodeSchedulableResponse:
        """Cordon a node, so that it accepts no new allocations; or end the cordon, and with it a drain.

        The RM must allow allocations too. `message` is the reason.
        """
        check_arguments(node_id=node_id, schedulable=schedulable, message=message)
        request = pb.SetNodeSchedulableRequest(
            rm_id=self._rm("set_node_schedulable"),
            partition=self._partition(partition),
            node_id=node_id,
            schedulable=schedulable,
            message=message,
        )
        return await self._calls.call(lambda channel: _stub(channel).SetNodeSchedulable, request)

    async def drain_node(
        self,
        node_id: str,
        deadline_seconds: int | None = None,
        *,
        message: str = "",
        partition: str = DEFAULT_PARTITION,
    ) -> pb.DrainNodeResponse:
        """Cordon a node until it is empty. Without a deadline no allocation is stopped.

        With a deadline, in whole seconds up to 7 days, the RM is asked to stop the allocations one after
        another until then; 0 stops all of them together. Foreign allocations and those that require the node
        are excluded. `message` is the reason.
        """
        check_arguments(node_id=node_id, message=message)
        if deadline_seconds is not None:
            check_arguments(deadline_seconds=deadline_seconds)
        request = pb.DrainNodeRequest(
            rm_id=self._rm("drain_node"),
            partition=self._partition(partition),
            node_id=node_id,
            deadline_seconds=deadline_seconds,
            message=message,
        )
        return await self._calls.call(lambda channel: _stub(channel).DrainNode, request)

    async def set_queue_stopped(
        self, queue: str, stopped: bool, *, message: str = "", partition: str = DEFAULT_PARTITION
    ) -> pb.SetQueueStoppedResponse:
        """Stop a queue and its descendants, or start it again; allocations continue.

        `message` is the reason.
        """
        check_arguments(queue=queue, stopped=stopped, message=message)
        request = pb.SetQueueStoppedRequest(
            rm_id=self._rm("set_queue_stopped"),
            partition=self._partition(partition),
            queue=queue,
            stopped=stopped,
            message=message,
        )
        return await self._calls.call(lambda channel: _stub(channel).SetQueueStopped, request)

    async def log_levels(self) -> dict[str, str]:
        """The level of each logger that has its own; the empty name means all other loggers."""
        answer = await self._calls.call(
            lambda channel: _stub(channel).GetLogLevels, pb.GetLogLevelsRequest(page_size=1)
        )
        return dict(answer.levels)

    async def set_log_level(self, level: str, logger: str = "", *, message: str = "") -> dict[str, str]:
        """Set the level of a logger and its children, or the default level; returns all levels.

        `level` is ``debug``, ``info``, ``warning`` or ``error``; empty removes the logger's own level.
        Without `logger` the default level is set. `message` is the reason.
        """
        check_arguments(level=level, logger=logger, message=message)
        request = pb.SetLogLevelRequest(logger=logger, level=level, message=message)
        answer = await self._calls.call(lambda channel: _stub(channel).SetLogLevel, request)
        return dict(answer.levels)

    async def dump_state(self) -> AsyncGenerator[bytes, None]:
        """The server's state of the RM, or of all RMs: one JSON document, in pieces."""
        request = pb.DumpStateRequest(rm_id=self.rm_id)
        pieces = self._calls.stream(lambda channel: _stub(channel).DumpState, request)
        async with aclosing(pieces):
            async for piece in pieces:
                yield piece.json

    async def forget_rm(self, *, force: bool = False, message: str = "") -> None:
        """Remove a disconnected RM and all its state. `message` is the reason.

        Raises CallFailed with the reason ``RM_CONNECTED`` while the RM has an open stream. Without `force` it
        also raises ``RM_HAS_ALLOCATIONS`` while the RM has allocations. Allocations are not stopped.
        """
        check_arguments(force=force, message=message)
        request = pb.ForgetRmRequest(rm_id=self._rm("forget_rm"), force=force, message=message)
        await self._calls.call(lambda channel: _stub(channel).ForgetRm, request)


class Admin(Standalone, AdminCalls):
    """Operators' calls, for a program that is no resource manager.

    ::

        async with Admin("localhost:7070", rm_id="rm1", token=Path("operator.token")) as admin:
            await admin.set_node_schedulable("n7", False)
    """

    def __init__(
        self,
        target: Target,
        *,
        rm_id: str = "",
        tls: TlsConfig | None = None,
        token: Token | None = None,
        timeout: float = TIMEOUT,
    ) -> None:
        """Connect with the first call.

        `target` is ``host:port``, or several addresses of a deployment, separated by commas or as a list: the
        first one with a server is used. `rm_id` names the RM of the calls. `timeout` is in seconds, for each
        call; plans and configuration calls may take 90 s even if it is shorter.

        Raises ValueError for a token that would be sent without TLS, and for an invalid timeout.
        """
        super().__init__(Calls(Dialer(target, tls, token), timeout), rm_id)
