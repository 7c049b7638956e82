"""The users of a fair leaf, and their applications (spec § 5.2).

A fair leaf compares users first, and then the applications of one user. So it ranks users as a parent ranks
its children, and each user ranks applications: an allocation changes the key of one user, however many
applications the user has.
"""

from collections.abc import Iterator
from typing import Any

from licorne_core.model.apps.application import Application
from licorne_core.values.ranking import Key, Ranking
from licorne_core.values.resources import charge, refund


class UserApps:
    """Applications of one user that a fair leaf ranks together, as one item of its ranking.

    Gangs that are ordered after all others are separate from the user's other applications.
    """

    __slots__ = ("_all", "allocated", "behind", "key", "name", "ranking")

    def __init__(self, name: str, allocated: dict[str, int], *, behind: bool) -> None:
        """Start without applications of the user, who has these amounts in the leaf."""
        self.name = name
        self.allocated = allocated
        self.behind = behind
        self.key: Key = ()  # the sort key among the items of the leaf at the last change
        self.ranking: Ranking[Application] = Ranking()  # applications to try, the first on top
        self._all: Ranking[Application] = Ranking()  # the same applications without setting any aside

    def __contains__(self, app: Application) -> bool:
        """True if the application is ranked."""
        return app in self.ranking

    def __len__(self) -> int:
        """Number of ranked applications."""
        return len(self.ranking)

    def put(self, app: Application, key: Key) -> None:
        """Rank an application by the key, and activate it."""
        self.ranking.put(app, key)
        self._all.put(app, key)

    def discard(self, app: Application) -> None:
        """Remove an application, if it is ranked."""
        self.ranking.discard(app)
        self._all.discard(app)

    def clear(self) -> None:
        """Remove all applications."""
        self.ranking.clear()
        self._all.clear()

    def first_key(self) -> Key:
        """Key of the first application, blocked or not; there is at least one."""
        first = self._all.top()
        entry = None if first is None else self._all.entry(first)
        assert entry is not None, f"{self.name} has no ranked application"
        return entry.key


class LeafUser:
    """The applications and counts of one user in a fair leaf."""

    __slots__ = ("_known", "allocated", "items", "name")

    def __init__(self, name: str) -> None:
        """Start without applications."""
        self.name = name
        self.allocated: dict[str, int] = {}  # amounts of all applications, placeholders included
        self.items = tuple(UserApps(name, self.allocated, behind=behind) for behind in (False, True))
        self._known: dict[Application, dict[str, int]] = {}

    def __len__(self) -> int:
        """Number of applications."""
        return len(self._known)

    def follow(self, app: Application) -> None:
        """Replace the counts of an application by its current counts."""
        used = dict(app.allocated)
        charge(used, tuple(app.placeholder_allocated.items()))
        before = self._known.get(app)
        if before != used:
            self._known[app] = used
            charge(self.allocated, tuple(used.items()))
            refund(self.allocated, tuple((before or {}).items()))

    def let_go(self) -> None:
        """Break the reference cycle with its applications, because the leaf is dropped."""
        for apps in self.items:
            apps.clear()

    def forget(self, app: Application) -> None:
        """Remove an application that leaves the queue."""
        refund(self.allocated, tuple(self._known.pop(app, {}).items()))


def in_order(ranking: Ranking[Any]) -> Iterator[Application | None]:
    """The applications below a queue, or of a user, in the current order, and a None for each pause."""
    for one in ranking.in_force.in_order():
        if one is None or isinstance(one, Application):
            yield one
        else:
            yield from in_order(one.ranking)
