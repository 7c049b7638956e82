"""What a request of an administrator names: an RM that the caller may see."""

from typing import Any

from licorne_core.errors import NotFound
from licorne_core.reports import RmReport
from licorne_core.views import Views
from licorne_server.access import Access
from licorne_server.caps import rm_id_problem
from licorne_server.errors import failed_precondition, invalid_argument


class Names:
    """Finds what is named, and checks first that the caller may know of it."""

    def __init__(self, views: Views, access: Access) -> None:
        """Over the reports of the core, and who may see what."""
        self._views = views
        self._access = access

    def rm(self, rm_id: str, context: Any) -> RmReport:
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
