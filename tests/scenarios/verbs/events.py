"""``events [WORD...]``: what was noted since last time, or what of it has one of the words."""

from scenarios.stage import Line, Stage
from support.core.watching import heard


def run(stage: Stage, line: Line) -> list[str]:
    """Print the events since last time, and forget them."""
    return heard(stage.driver, *line.words)
