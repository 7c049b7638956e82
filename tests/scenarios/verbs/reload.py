"""``reload [begin=yes] [extra:KEY=VALUE...]`` and a configuration: the RM sends another one."""

from scenarios.stage import Line, Stage
from support.core.builders import reload


def run(stage: Stage, line: Line) -> list[str]:
    """Update the configuration."""
    extra = line.take_all("extra:")
    return stage.hand_in(line, reload(line.text, rm=stage.rm, extra=extra))
