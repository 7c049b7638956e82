"""The reason of a gang at its maximum."""

from licorne_core.extensions.elastic.sizes import ELASTIC_MAX
from licorne_core.model.apps.application import Asking
from licorne_core.scheduling.rules import CheckContext, Checks, Rule, RulePlace


class _BelowMaximum(Rule):
    """The gang is below its maximum. Only the search for a whole gang tests this (`Elastic.lack`)."""

    def obstacle(self, context: CheckContext, asking: Asking) -> None:
        return None

    def reports(self, context: CheckContext, asking: Asking, obstacle: None) -> Checks:
        return ()


RULES = (_BelowMaximum(RulePlace.TOGETHER, (ELASTIC_MAX,), found_by_search=True),)
