"""``events [TYPE]``: what those who watch have heard since last time, all or of one type."""

from scenarios.printing import shown_event
from scenarios.stage import Line, Stage


def run(stage: Stage, line: Line) -> list[str]:
    """Print the records of the facts since last time, and forget them."""
    records = [record for fact in stage.driver.facts for record in fact.records()]
    stage.driver.facts.clear()
    return [
        shown_event(record)
        for record in records
        if not line.words or record.type.name in line.words
    ]
