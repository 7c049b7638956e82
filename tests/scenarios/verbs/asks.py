"""``asks APP KEY... [priority=N] [age=S] [on=NODE] [required=NODE] vcore=N ...``: asks arrive.

With `on` they are allocations that exist already; `age` is in seconds.
"""

from scenarios.stage import Line, Stage
from support.builders import ask, asks


def run(stage: Stage, line: Line) -> list[str]:
    """Submit asks of one size."""
    app_id, *wanted = line.words
    age = line.take("age")
    priority, partition = int(line.take("priority", "0")), line.take("partition")
    on_node, required = line.take("on"), line.take("required")
    size = line.resources()
    new = [
        ask(
            app_id,
            key,
            priority=priority,
            created=stage.driver.now - float(age) if age else None,
            on_node=on_node or None,
            required_node=required or None,
            partition=partition,
            size=size,
        )
        for key in wanted
    ]
    return stage.told(stage.driver.send(asks(*new, rm=stage.rm)))
