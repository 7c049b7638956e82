"""Plans: effects of a configuration, and of a submission (spec § 13).

A plan carries the command out on a scheduler that is given away for it, a copy of the live one, and
lets that scheduler decide as it always does. So a plan has no rules of its own: it is the core's
own decision. The copy is of no use afterwards.

The RM's part is assumed: it accepts every node that it is asked about and every choice of victims,
and confirms every stop at once. No other input comes, and nothing ends by itself. Other RMs are on
hold, as no RM's decisions depend on another's.

Time passes on the copy as far as delays of preemption make things wait (`ahead.py`), so that a plan
shows victims too. Each entry has the seconds until it happens.
"""

from licorne_core.whatif.configuration import plan_configuration
from licorne_core.whatif.plans import ConfigurationPlan, ConfigurationPlanRefused, SubmissionPlan
from licorne_core.whatif.submission import plan_submission

__all__ = [
    "ConfigurationPlan",
    "ConfigurationPlanRefused",
    "SubmissionPlan",
    "plan_configuration",
    "plan_submission",
]
