"""Holds: an operator holds an application, or gives it another priority or another leaf.

The kernel knows that an application is held (`Application.held`), and the priority that it was given
(`Application.priority`), each with who did it. Both outlive the registration of its RM: an application
that comes again has them from its beginning, and their end is told to the server (`MarksEnded`).
"""

from typing import Final

NAME: Final = "holds"
