"""``wait SECONDS``: time passes, from deadline to deadline."""

from scenarios.stage import Line, Stage


def run(stage: Stage, line: Line) -> list[str]:
    """Move the clock."""
    return stage.told(stage.driver.wait(float(line.words[0])))
