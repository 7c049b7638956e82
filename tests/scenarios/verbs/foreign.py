"""``foreign KEY on=NODE [memory=N ...]``: what another scheduler runs; without a size it ends."""

from dataclasses import replace

from scenarios.stage import Line, Stage
from support.core.builders import ask, asks, release, releases


def run(stage: Stage, line: Line) -> list[str]:
    """Add, change or release a foreign allocation."""
    (key,) = line.words
    on_node = line.take("on")
    size = line.resources()
    if not size:
        return stage.told(stage.driver.send(releases(release("", key), rm=stage.rm)))
    taken = replace(ask("", key, on_node=on_node or None, size=size), tags={"foreign": "default"})
    return stage.told(stage.driver.send(asks(taken, rm=stage.rm)))
