"""What operators did to the applications of one partition."""

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
    """Marks of applications. Always true: one that has any is of interest.

    The application itself has the hold and the priority, which the kernel reads.
    """

    def __init__(self, name: str, bit: int, context: CheckContext) -> None:
        """Start without any."""
        super().__init__(name, bit, context)
        self.expected: dict[AppId, ApplicationMarks] = {}
        """Of applications that were marked before the registration, and have not come since."""
        self._moved: dict[Application, QueuePath] = {}

    def of(self, app: Application) -> ApplicationMarks:
        """What operators did to it."""
        return ApplicationMarks(app.held, app.changed, app.priority, self._moved.get(app, UNMARKED.queue))

    def note(self, app: Application, marks: ApplicationMarks) -> None:
        """Note what operators did to it; the caller lets its asks and its leaf follow."""
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
        """Of applications that have not come yet."""
        self.expected.update({AppId(name): had for name, had in marks.items()})

    def marks(self) -> Mapping[str, Any]:
        """Of applications that have not come."""
        return {str(app_id): had for app_id, had in self.expected.items()}

    def leaf_for(self, new: NewApplication, gang: Gang) -> Home | None:
        """The leaf that an operator moved it to before, if that still takes it; it keeps its size."""
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

    def follow(self, app: Application, leaf: Queue, now: float) -> Iterator[int]:
        """One that was marked before has come."""
        had = self.expected.pop(app.app_id, None)
        if had is not None:
            self.note(app, had)
        return iter(())

    def gone(self, app: Application) -> None:
        """Nothing of its marks is needed any more, unless it is its partition that has gone."""
        self._moved.pop(app, None)
        is_marked = app.held is not None or app.changed is not None
        if is_marked and app.app_id in self.context.applications:
            self._tell([app.app_id])

    def replayed(self) -> None:
        """Those that have not come have ended meanwhile."""
        if self.expected:
            self._tell(list(self.expected))
            self.expected.clear()

    def _tell(self, over: list[AppId]) -> None:
        told, those = self.context.rm.told, [(self.context.partition, app_id) for app_id in over]
        for effect in told:
            if isinstance(effect, MarksEnded):
                effect.applications.extend(those)
                return
        told.append(MarksEnded(rm_id=rm_of(self.context.partition), applications=those))

    def recount(self, applications: Mapping[AppId, Application], *, settled: bool) -> None:
        """Applications with marks are of interest, and no others."""
        for app in applications.values():
            if (self.of(app) != UNMARKED) != bool(app.interests & self.bit):
                raise InvariantBroken(f"{app!r}: marks {self.of(app)}, interests {app.interests}")


KIND: Final = Holds
