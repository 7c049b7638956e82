"""Commands of operators that affect the applications of one partition."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from licorne_core.extensions.holds.messages import UNMARKED, ApplicationMarks, MarksEnded
from licorne_core.handlers.gangs import check_gang
from licorne_core.messages.commands import NewApplication
from licorne_core.model.apps.admission import is_forced
from licorne_core.model.apps.application import Application
from licorne_core.model.apps.gang import Gang
from licorne_core.model.queues.queue import Queue, takes_applications
from licorne_core.points import Extension, Home
from licorne_core.scheduling.rules import CheckContext
from licorne_core.values.errors import InvariantBroken, Rejected
from licorne_core.values.ids import AppId, QueuePath, rm_of


class Holds(Extension):
    """Marks of applications. Always true: an application with a mark has the bit.

    The application itself has the hold and the priority, which the kernel reads.
    """

    def __init__(self, name: str, bit: int, context: CheckContext) -> None:
        """Start without marks."""
        super().__init__(name, bit, context)
        self.expected: dict[AppId, ApplicationMarks] = {}
        """Marks of applications from before the registration that have not been added since."""
        self._moved: dict[Application, QueuePath] = {}

    def of(self, app: Application) -> ApplicationMarks:
        """The marks of the application."""
        return ApplicationMarks(app.held, app.changed, app.priority, self._moved.get(app, UNMARKED.queue))

    def note(self, app: Application, marks: ApplicationMarks) -> None:
        """Set the marks of the application; the caller changes its asks and its leaf."""
        app.held, app.changed, app.priority = marks.hold, marks.change, marks.priority
        if marks.queue:
            self._moved[app] = marks.queue
        else:
            self._moved.pop(app, None)
        if marks == UNMARKED:
            app.interests &= ~self.bit
        else:
            app.interests |= self.bit

    def take_marks(self, marks: Mapping[str, Any]) -> None:
        """Restore the marks; their applications have not been added yet."""
        self.expected.update({AppId(name): had for name, had in marks.items()})

    def marks(self) -> Mapping[str, Any]:
        """Marks of applications that have not been added."""
        return {str(app_id): had for app_id, had in self.expected.items()}

    def leaf_for(self, new: NewApplication, gang: Gang) -> Home | None:
        """The leaf to which an operator moved the application; None if that leaf does not accept it now."""
        path = self.expected.get(new.app_id, UNMARKED).queue
        leaf = self.context.tree.get(path) if path else None
        if leaf is None or not takes_applications(leaf):
            return None
        if gang.is_wanted and not is_forced(new):
            try:
                check_gang(new.app_id, leaf, leaf.max, gang)
            except Rejected:
                return None
        return Home(leaf, may_size=False)

    def apply_leaf(self, app: Application, leaf: Queue, now: float) -> Iterator[int]:
        """Apply earlier marks to an application that was added."""
        had = self.expected.pop(app.app_id, None)
        if had is not None:
            self.note(app, had)
        return iter(())

    def app_gone(self, app: Application) -> None:
        """Drop the marks of an ended application, but not if its partition was removed."""
        self._moved.pop(app, None)
        is_marked = app.held is not None or app.changed is not None
        if is_marked and app.app_id in self.context.applications:
            self._tell([app.app_id])

    def replayed(self) -> None:
        """Drop the marks of applications that were not added: they have ended in the meantime."""
        if self.expected:
            self._tell(list(self.expected))
            self.expected.clear()

    def _tell(self, over: list[AppId]) -> None:
        notifications, those = (
            self.context.rm.notifications,
            [(self.context.partition, app_id) for app_id in over],
        )
        for effect in notifications:
            if isinstance(effect, MarksEnded):
                effect.applications.extend(those)
                return
        notifications.append(MarksEnded(rm_id=rm_of(self.context.partition), applications=those))

    def recount(self, applications: Mapping[AppId, Application], *, settled: bool) -> None:
        """Check that applications with marks, and no others, have the bit."""
        for app in applications.values():
            if (self.of(app) != UNMARKED) != bool(app.interests & self.bit):
                raise InvariantBroken(f"{app!r}: marks {self.of(app)}, interests {app.interests}")


KIND: Final = Holds
