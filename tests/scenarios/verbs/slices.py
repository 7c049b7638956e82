"""``slices N``: the scenario begins with a core that does so many steps of a command at a time."""

from licorne_core.values.slices import Tuning
from scenarios.stage import Line, Stage
from support.core.driver import Driver


def run(stage: Stage, line: Line) -> list[str]:
    """Have another core."""
    (size,) = line.words
    stage.driver = Driver(tuning=Tuning(slice_size=int(size)))
    return []
