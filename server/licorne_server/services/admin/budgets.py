"""Budgets over RMs: read, replace, and release the slices of a removed RM."""

from typing import Any

from google.protobuf.message import Message

from licorne.v1 import admin_pb2 as pb
from licorne_core.values.errors import ConfigError
from licorne_core.values.ids import RmId
from licorne_server.rms.budgets.definitions import refused
from licorne_server.rms.budgets.escrow import NotReleased
from licorne_server.rms.budgets.members import MemberBudgets
from licorne_server.services.admin.rights import Rights
from licorne_server.services.calls import Handler, unary_handler
from licorne_server.store.configurations.revisions import Source
from licorne_server.store.configurations.thread import Origin
from licorne_server.store.documents.documents import StoreError
from licorne_server.wire.caps import MAX_CONFIG_BYTES, bytes_of, comment_problem, rm_id_problem, size_problem
from licorne_server.wire.errors import failed_precondition, invalid_argument, unavailable


class BudgetMethods:
    """The calls about budgets; changes are for operators, reads for viewers too."""

    def __init__(self, rights: Rights, budgets: MemberBudgets) -> None:
        """Over the budgets of the server."""
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
