"""Rows of accounting for two owners, and amounts of one hour."""

from licorne_server.reads.resource_hours import HOUR, PER_HOUR, Hours, HoursOwner, HoursRow, in_hours

BEGIN = 1_700_000_000 // HOUR * HOUR
A = HoursOwner("[rm1]default", "root.a", "ann", "")
B = HoursOwner("[rm1]default", "root.b.c", "bob", 'dev, "ops"')


def row(value: int, ended: int = 0, preempted: int = 0, lost: int = 0) -> HoursRow:
    """A row of this number of core-hours."""
    return HoursRow({"vcore": value * PER_HOUR}, ended, preempted, {"vcore": lost * PER_HOUR} if lost else {})


def totals(hours: Hours) -> dict[tuple[int, HoursOwner], dict[str, float]]:
    """Amounts times hours, by hour and owner."""
    return {
        (hour, place): in_hours(row.used)
        for hour, rows in hours.by_hour.items()
        for place, row in rows.items()
    }
