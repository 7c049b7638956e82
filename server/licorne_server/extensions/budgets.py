"""Budgets over RMs in the journal. The server itself manages them in `rms/budgets`."""

from licorne_core.extensions.budgets.messages import Budget, BudgetPattern, SetBudgets, SetBudgetSlices
from licorne_server.engine.journal.forms import AMOUNTS, TEXT, Row, items, optional, plain

_PATTERN = Row(BudgetPattern, rm=TEXT, partition=TEXT, queue=TEXT)
_AMOUNTS_OF = plain(dict[str, dict[str, int]])
_BUDGET = Row(Budget, name=TEXT, limit=AMOUNTS, members=items(_PATTERN), slices=optional(_AMOUNTS_OF))

RECORDS = (_PATTERN, _BUDGET)
COMMANDS = (
    Row(SetBudgets, budgets=items(_BUDGET), floating=items(TEXT, frozenset)),
    Row(SetBudgetSlices, budget=TEXT, slices=_AMOUNTS_OF),
)
