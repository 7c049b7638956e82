"""What an RM says of its nodes when it is asked (spec § 8.4)."""

from licorne_core.commands import AnswerPredicates
from licorne_core.effects import Effect
from licorne_core.registry import Rm


def answer_predicates(rm: Rm, command: AnswerPredicates, now: float) -> list[Effect]:
    """An answer to a question that is not open any more is ignored."""
    return []
