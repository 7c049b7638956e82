"""Holds: an operator holds an application, or gives it another priority or another leaf.

The kernel has the hold (`Application.held`) and the priority of an application (`Application.priority`), each
with the mark of the operator. Both outlive the registration of its RM: an application that is added again has
both from its start, and their end is reported to the server (`MarksEnded`).
"""

from typing import Final

NAME: Final = "holds"
