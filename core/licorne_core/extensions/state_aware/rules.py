"""The rule that applications of strict leaves, and new ones of state-aware leaves, wait for their turn."""

from licorne_core.extensions.state_aware import NAME, STRICT
from licorne_core.messages.checks import RuleCheck
from licorne_core.model.apps.application import Application
from licorne_core.scheduling.rules import CheckContext, Checks, Rule, RulePlace

ANOTHER_APPLICATION_STARTS = "ANOTHER_APPLICATION_STARTS"


class _StartsNext(Rule):
    """The application is the next to start. No other one is ranked, so no pass evaluates this rule."""

    def obstacle(self, context: CheckContext, app: Application) -> Application | None:
        found: Application | None = context.extensions[NAME].ahead_of(app)
        return found

    def reports(self, context: CheckContext, app: Application, obstacle: Application | None) -> Checks:
        if context.extensions[NAME].waits_in_turn(app):
            text = f"next to start in queue {app.leaf.path}"
            if obstacle is not None:
                kind = "strict" if app.leaf.settings.app_sort == STRICT else "state-aware"
                text = f"application {obstacle.app_id} comes first in {kind} queue {app.leaf.path}"
            yield RuleCheck(
                code=ANOTHER_APPLICATION_STARTS,
                kind="starting",
                subject=app.leaf.path,
                text=text,
                passed=obstacle is None,
            )


RULES = (_StartsNext(RulePlace.TURN, (ANOTHER_APPLICATION_STARTS,), spares_reserved=True),)
