"""The rule that an application is not tried during its back-off."""

from licorne_core.extensions.back_off import NAME
from licorne_core.features import BITS
from licorne_core.messages.checks import RuleCheck
from licorne_core.model.apps.application import Application
from licorne_core.scheduling.rules import CheckContext, Checks, Rule, RulePlace
from licorne_core.scheduling.waiting.blockers import Blocker, OfThing

APPLICATION_BACKS_OFF = "APPLICATION_BACKS_OFF"
BIT = BITS[NAME]
"""Bit of leaves in which applications may back off, and of applications that back off."""


class BackOff(OfThing):
    """An application is not tried for a while."""

    __slots__ = ()

    def lets_through(self) -> bool:
        """True if the back-off has ended."""
        app: Application = self.thing
        return not app.interests & BIT


class _NoBackOff(Rule):
    """The application does not back off."""

    def obstacle(self, context: CheckContext, app: Application) -> Application | None:
        return app if app.interests & BIT else None

    def blocker(self, context: CheckContext, app: Application, obstacle: Application) -> Blocker:
        return context.wakeups.blockers.get(BackOff, app)

    def reports(self, context: CheckContext, app: Application, obstacle: Application | None) -> Checks:
        if obstacle is not None:
            threshold: int = app.leaf.settings.of(NAME) or 0
            asks = "1 ask" if threshold == 1 else f"{threshold} asks in a row"
            yield RuleCheck(
                code=APPLICATION_BACKS_OFF,
                kind="backoff",
                subject=app.app_id,
                text=f"application {app.app_id} backs off: {asks} found no node",
                passed=False,
                until=context.extensions[NAME].ends_at(app),
            )


RULES = (_NoBackOff(RulePlace.PAUSE, (APPLICATION_BACKS_OFF,), BackOff, interest=BIT, spares_reserved=True),)
