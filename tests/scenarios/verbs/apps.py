"""``apps ID... in=QUEUE [user=U] [partition=P]``: applications are submitted."""

from scenarios.stage import Line, Stage
from support.builders import app, apps


def run(stage: Stage, line: Line) -> list[str]:
    """Add applications to one queue."""
    queue, user, partition = line.take("in"), line.take("user", "ann"), line.take("partition")
    new = [app(app_id, queue, user=user, partition=partition) for app_id in line.words]
    return stage.told(stage.driver.send(apps(*new, rm=stage.rm)))
