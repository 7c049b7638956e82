"""The RM of an administrator's request: one that the caller may see."""

from typing import Any

from licorne_core.values.errors import NotFound
from licorne_core.values.ids import rm_of
from licorne_core.views import Views
from licorne_core.views.partitions import RmReport
from licorne_server.configurations import Configurations
from licorne_server.security.access import Access
from licorne_server.wire.caps import rm_id_problem
from licorne_server.wire.errors import CallError, failed_precondition, invalid_argument

MOST_NAMED = 20
"""RMs that a refusal names."""


class Names:
    """Finds the subject of a request, after checking the caller's right to know of it."""

    def __init__(self, views: Views, access: Access, configurations: Configurations) -> None:
        """Over the reports of the core, and the rights of callers.

        `configurations` know RMs that are not registered now.
        """
        self._views = views
        self._access = access
        self._configurations = configurations

    def rm(self, rm_id: str, context: Any) -> RmReport:
        """The RM that a request names.

        Raises:
            CallError: it is not registered, or the caller may not see it.
        """
        self._check(rm_id, context)
        found = self._find(rm_id)
        if found is None:
            raise failed_precondition(
                f"RM {rm_id} has no active partitions, make sure it is registered",
                "RM_NOT_REGISTERED",
            )
        return found

    def known_rm(self, rm_id: str, context: Any) -> RmReport | None:
        """The RM that a request names; None for one of which only configurations are known.

        Such an RM is not registered now: it has gone, or the server has started anew.

        Raises:
            CallError: nothing is known of it, or the caller may not see it.
        """
        self._check(rm_id, context)
        if self._configurations.find(rm_id) is None:
            return self.rm(rm_id, context)
        return self._find(rm_id)

    def _check(self, rm_id: str, context: Any) -> None:
        """Refuse malformed names of RMs, and callers that may not know of the RM."""
        if not rm_id:
            raise self._unnamed(context)
        problem = rm_id_problem(rm_id)
        if problem:
            raise invalid_argument(problem, "rm_id")
        self._access.check_read(context, rm_id)

    def _unnamed(self, context: Any) -> CallError:
        """The refusal of a request without an RM, listing those that the caller may name."""
        caller = self._access.caller(context)
        known = dict.fromkeys(map(rm_of, self._views.partition_names()))
        rm_ids = [rm_id for rm_id in known if self._access.may_read(caller, rm_id)]
        named = ", ".join(rm_ids[:MOST_NAMED])
        more = f" and {len(rm_ids) - MOST_NAMED} more" if len(rm_ids) > MOST_NAMED else ""
        which = f", name one of them: {named}{more}" if rm_ids else ""
        return invalid_argument(f"rmID is empty{which}", "rm_id", "RM_NOT_NAMED", rms=named)

    def _find(self, rm_id: str) -> RmReport | None:
        try:
            return self._views.rm(rm_id)
        except NotFound:
            return None
