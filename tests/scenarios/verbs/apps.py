"""``apps ID... in=QUEUE [user=U] [groups=G,H] [tag:NAME=VALUE...]``: applications are submitted.

With ``gang:TYPE=N`` and maybe ``style=hard timeout=S`` they have a gang.
"""

from scenarios.stage import Line, Stage
from support.core.builders import app, apps


def run(stage: Stage, line: Line) -> list[str]:
    """Add applications to one queue."""
    queue, user, partition = line.take("in"), line.take("user", "ann"), line.take("partition")
    groups = [group for group in line.take("groups").split(",") if group]
    tags = line.take_all("tag:")
    gang = {name: int(value) for name, value in line.take_all("gang:").items()}
    style, timeout = line.take("style"), float(line.take("timeout", "0"))
    new = [
        app(
            app_id,
            queue,
            user=user,
            groups=groups,
            partition=partition,
            tags=tags,
            gang=gang,
            style=style,
            timeout=timeout,
        )
        for app_id in line.words
    ]
    return stage.told(stage.driver.send(apps(*new, rm=stage.rm)))
