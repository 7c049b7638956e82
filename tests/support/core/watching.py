"""What those who watch a core hear, as lines that a test can compare."""

from licorne_core.events.journal import EventRecord
from support.core.driver import Driver


def shown(record: EventRecord) -> str:
    """``APP app SET APP_RUNNING``, then what it refers to, amounts and message if there are any."""
    words = [record.type.name, record.object_id, record.change.name, record.detail.name]
    if record.reference_id:
        words.append(record.reference_id)
    words += [f"{name}={value}" for name, value in sorted(record.resource.items())]
    return " ".join(words) + (f": {record.message}" if record.message else "")


def records(driver: Driver) -> list[EventRecord]:
    """The published events since last time, in order; each fact is as many as it says."""
    found: list[EventRecord] = []
    for fact in driver.facts:
        expanded = fact.records()
        assert len(expanded) == fact.count, fact
        found += expanded
    driver.facts.clear()
    return found


def heard(driver: Driver, *words: str) -> list[str]:
    """The events since last time, each as a line; with words those that have one of them."""
    lines = [shown(record) for record in records(driver)]
    return [line for line in lines if not words or set(words) & set(line.split())]
