"""``remove ID...``: applications go, with all they have."""

from scenarios.stage import Line, Stage
from support.core.builders import remove_apps


def run(stage: Stage, line: Line) -> list[str]:
    """Remove applications."""
    command = remove_apps(*line.words, rm=stage.rm, partition=line.take("partition"))
    return stage.told(stage.driver.send(command))
