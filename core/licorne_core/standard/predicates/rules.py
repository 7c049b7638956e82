"""The rule that asks with a predicate are not tried while too many checks are unanswered."""

from licorne_core.messages import reasons
from licorne_core.model.apps.application import Asking
from licorne_core.scheduling.rules import WITH_PREDICATE, CheckContext, Checks, Rule, RulePlace
from licorne_core.scheduling.waiting.blockers import Blocker
from licorne_core.standard.predicates.checks import checks_of
from licorne_core.standard.predicates.owed import AnswersOwed


class _MayBeAsked(Rule):
    """The number of unanswered checks allows another ask to wait (spec § 8.4)."""

    def obstacle(self, context: CheckContext, asking: Asking) -> AnswersOwed | None:
        owed = checks_of(context).owed
        return None if owed.lets_through() else owed

    def blocker(self, context: CheckContext, asking: Asking, obstacle: AnswersOwed) -> Blocker:
        return obstacle

    def reports(self, context: CheckContext, asking: Asking, obstacle: AnswersOwed | None) -> Checks:
        checks = checks_of(context)
        yield reasons.AnswersCheck(waiting=checks.waiting, most=checks.owed.most, passed=obstacle is None)


RULES = (
    _MayBeAsked(RulePlace.ANSWER, (reasons.TOO_MANY_ANSWERS_OWED,), AnswersOwed, interest=WITH_PREDICATE),
)
