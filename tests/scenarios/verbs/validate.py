"""``validate [strict]`` and a configuration: would it be taken?"""

from licorne_core.config import load
from licorne_core.values.errors import ConfigError
from scenarios.stage import Line, Stage


def run(_: Stage, line: Line) -> list[str]:
    """Print every problem with its place, or the warnings of one that would be taken."""
    try:
        configuration = load(line.text, strict="strict" in line.words)
    except ConfigError as error:
        return ["refused", *(str(problem) for problem in error.problems)]
    return ["allowed", *(f"warning: {warning}" for warning in configuration.warnings)]
