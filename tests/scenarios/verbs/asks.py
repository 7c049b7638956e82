"""``asks APP KEY... [priority=N] [age=S] [on=NODE] [required=NODE] [predicate=CLASS] vcore=N ...``.

Asks arrive. With `on` they are allocations that exist already; `age` is in seconds. More settings:
``group=G`` names the task group, ``placeholder=yes`` makes placeholders. ``may=`` has ``s`` for
those that may be preempted and ``o`` for those that may preempt others; ``originator=yes``.
"""

from scenarios.stage import Line, Stage
from support.core.builders import ask, asks


def run(stage: Stage, line: Line) -> list[str]:
    """Submit asks of one size."""
    app_id, *wanted = line.words
    age = line.take("age")
    priority, partition = int(line.take("priority", "0")), line.take("partition")
    on_node, required = line.take("on"), line.take("required")
    predicate = line.take("predicate")
    group, placeholder = line.take("group"), line.take("placeholder") == "yes"
    policy, originator = line.take("may"), line.take("originator") == "yes"
    tags = line.take_all("tag:")
    size = line.resources()
    new = [
        ask(
            app_id,
            key,
            priority=priority,
            created=stage.driver.now - float(age) if age else None,
            on_node=on_node or None,
            required_node=required or None,
            predicate=predicate or None,
            partition=partition,
            group=group,
            placeholder=placeholder,
            policy=policy,
            originator=originator,
            tags=tags,
            size=size,
        )
        for key in wanted
    ]
    return stage.told(stage.driver.send(asks(*new, rm=stage.rm)))
