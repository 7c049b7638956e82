"""`ListBudgets` of `licorne.v1.State`: messages, and the merged answers of several members."""

from collections.abc import Sequence
from typing import Any

from google.protobuf.message import Message

from licorne.v1 import state_pb2 as pb
from licorne_server.reads.reports import MaySee, filled
from licorne_server.rms.budgets.members import BudgetState, HoldingState

_holding_message = filled(pb.BudgetHolding, HoldingState)
_budget_message = filled(
    pb.Budget,
    BudgetState,
    {
        "members": lambda budget: [
            pb.BudgetMember(rm=member.rm, partition=member.partition, queue=member.queue)
            for member in budget.members
        ],
        "holdings": None,
    },
)


def budget_message(budget: BudgetState, may_see: MaySee) -> pb.Budget:
    """One budget, with the RMs that the caller may see."""
    message = _budget_message(budget)
    message.holdings.extend(
        _holding_message(one) for one in budget.holdings if may_see is None or may_see(one.rm_id)
    )
    return message


def merged_budgets(_: Any, answers: Sequence[pb.ListBudgetsResponse]) -> Message:
    """The budgets of this member, with the use of other members' RMs added."""
    whole = answers[0]
    budgets = {budget.name: budget for budget in whole.budgets}
    places = {
        (name, holding.rm_id): holding for name, budget in budgets.items() for holding in budget.holdings
    }
    for answer in answers[1:]:
        for other in answer.budgets:
            for holding in other.holdings:
                place = places.get((other.name, holding.rm_id))
                if place is None or place.here or not holding.here:
                    continue
                place.CopyFrom(holding)
                used = budgets[other.name].used
                for resource, value in holding.used.items():
                    used[resource] += value
    return whole
