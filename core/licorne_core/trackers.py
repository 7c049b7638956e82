"""What one user, or all members of one group, have in one queue and below (spec § 10.1)."""

from licorne_core.ids import AppId, QueuePath
from licorne_core.quotas import Quota


class Tracker(Quota):
    """Usage and limit of one name at one level; `max` None and `max_applications` 0: no limit."""

    __slots__ = ("applications", "kind", "members", "name", "path")

    def __init__(self, kind: str, name: str, path: QueuePath) -> None:
        """Without usage and without a limit; `kind` is ``user`` or ``group``."""
        # A type that a limit does not name is not limited.
        super().__init__(strict=False)
        self.kind = kind
        self.name = name
        self.path = path
        self.applications: dict[AppId, None] = {}
        self.members: dict[AppId, None] = {}

    def __repr__(self) -> str:
        """``<Tracker user ann in root.a: {'vcore': 5} of {'vcore': 10}, 1 running>``."""
        return (
            f"<Tracker {self.kind} {self.name} in {self.path}: {self.allocated} of {self.max}, "
            f"{len(self.applications)} running>"
        )

    @property
    def started_applications(self) -> int:
        """Applications with at least one allocation (spec § 10.5)."""
        return len(self.applications)

    def counts(self, app_id: AppId) -> bool:
        """Whether the application is one of them."""
        return app_id in self.applications
