"""The rule that an application that backs off is not tried."""

from dataclasses import dataclass

from licorne_core.extensions import BITS
from licorne_core.extensions.back_off import NAME
from licorne_core.messages.reasons import Added
from licorne_core.model.apps.application import Application
from licorne_core.scheduling.rules import CheckContext, Checks, Place, Rule
from licorne_core.scheduling.waiting.blockers import Blocker, OfThing
from licorne_core.values.ids import AppId

APPLICATION_BACKS_OFF = "APPLICATION_BACKS_OFF"
BIT = BITS[NAME]
"""Of the leaves in which applications back off, and of the applications that do."""


class BackOff(OfThing):
    """An application is not tried for a while."""

    __slots__ = ()

    def lets_through(self) -> bool:
        """True if the back-off is over."""
        app: Application = self.thing
        return not app.interests & BIT


@dataclass(frozen=True, slots=True, kw_only=True)
class BackOffCheck(Added):
    """The application backs off, as too many of its asks found no node."""

    app_id: AppId
    until: float
    threshold: int

    code = APPLICATION_BACKS_OFF
    kind = "backoff"
    passed = False

    @property
    def subject(self) -> str:
        """The application."""
        return self.app_id

    def message(self) -> str:
        """The reason in one sentence."""
        asks = "1 ask" if self.threshold == 1 else f"{self.threshold} asks in a row"
        return f"application {self.app_id} backs off: {asks} found no node"


class _NoBackOff(Rule):
    """The application does not back off."""

    def obstacle(self, context: CheckContext, app: Application) -> Application | None:
        return app if app.interests & BIT else None

    def blocker(self, context: CheckContext, app: Application, obstacle: Application) -> Blocker:
        return context.wakeups.blockers.get(BackOff, app)

    def reports(self, context: CheckContext, app: Application, obstacle: Application | None) -> Checks:
        if obstacle is not None:
            until = context.extensions[NAME].ends_at(app)
            yield BackOffCheck(app_id=app.app_id, until=until, threshold=app.leaf.settings.of(NAME) or 0)


RULES = (_NoBackOff(Place.PAUSE, (APPLICATION_BACKS_OFF,), BackOff, interest=BIT, spares_reserved=True),)
