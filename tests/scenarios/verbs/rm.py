"""``rm NAME [begin=yes] [predicates=S] [victims=yes] [fail=open] [extra:KEY=VALUE...]``.

A configuration stands below it.
An RM registers; with `predicates` it wants to be asked, and answers within so many seconds;
with `victims` it judges victims as well.
"""

from licorne_core.messages.commands import FailMode, PredicatePolicy
from scenarios.stage import Line, Stage
from support.core.builders import register


def run(stage: Stage, line: Line) -> list[str]:
    """Register, or register anew."""
    (name,) = line.words
    extra = line.take_all("extra:")
    deadline, fail = line.take("predicates"), line.take("fail", "closed")
    judges = line.take("victims") == "yes"
    policy = None
    if deadline:
        policy = PredicatePolicy(
            deadline=float(deadline), fail_mode=FailMode[fail.upper()], judges_victims=judges
        )
    request = register(line.text, rm=name, extra=extra, predicates=policy)
    return stage.hand_in(line, request)
