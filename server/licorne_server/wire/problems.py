"""Problems of a configuration, formatted for editors and people."""

from collections.abc import Iterable

from licorne_core.values.errors import Problem


def located(file: str, problems: Iterable[Problem]) -> list[str]:
    """A line for each problem, ``file:line:column: path: message``; unknown parts are left out."""
    return [f"{file}:{'' if problem.line else ' '}{problem}" for problem in problems]
