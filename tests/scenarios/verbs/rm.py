"""``rm NAME [extra:KEY=VALUE...]`` and a configuration: an RM registers."""

from scenarios.stage import Line, Stage
from support.builders import register


def run(stage: Stage, line: Line) -> list[str]:
    """Register, or register anew."""
    (name,) = line.words
    extra = line.take_all("extra:")
    return stage.told(stage.driver.send(register(line.text, rm=name, extra=extra)))
