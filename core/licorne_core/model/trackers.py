"""Usage of one user, or of all members of one group, in one queue and below (spec § 10.1)."""

from typing import Protocol

from licorne_core.model.quotas import Quota
from licorne_core.values.ids import AppId, QueuePath
from licorne_core.values.resources import Resources


class Member(Protocol):
    """An application, as far as its usage goes."""

    allocated: dict[str, int]
    """Booked amounts without its placeholders, by resource name."""
    placeholder_allocated: dict[str, int]
    """Booked amounts of its placeholders, by resource name."""


class Tracker(Quota):
    """Usage and limit of one name at one level; `max` None and `max_applications` 0: no limit.

    Nothing is booked where nothing is limited, as most are not: then `allocated` is empty. `usage`
    is right everywhere.
    """

    __slots__ = ("applications", "members")

    def __init__(self, kind: str, name: str, path: QueuePath) -> None:
        """Start without usage and without a limit; `kind` is ``user`` or ``group``."""
        # A type that a limit does not name is not limited.
        super().__init__(kind, name, path, strict=False)
        self.applications: dict[AppId, None] = {}
        self.members: dict[AppId, Member] = {}

    def __repr__(self) -> str:
        """``<Tracker user ann in root.a: {'vcore': 5} of {'vcore': 10}, 1 running>``."""
        return (
            f"<Tracker {self.kind} {self.name} in {self.path}: {self.usage} of {self.max}, "
            f"{len(self.applications)} running>"
        )

    @property
    def bounds(self) -> bool:
        """True if it has any limit. Its applications have it among their quotas then."""
        return self.max is not None or self.max_applications > 0

    @property
    def usage(self) -> Resources:
        """Usage of its members, by resource name."""
        total: dict[str, int] = {}
        for member in self.members.values():
            for booked in (member.allocated, member.placeholder_allocated):
                for name, value in booked.items():
                    total[name] = total.get(name, 0) + value
        return total

    @property
    def started_applications(self) -> int:
        """Applications with at least one allocation (spec § 10.5)."""
        return len(self.applications)

    def counts(self, app_id: AppId) -> bool:
        """True if the application is one of them."""
        return app_id in self.applications
