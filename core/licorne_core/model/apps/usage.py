"""Highest usage of an application: read by reports, and derived for them.

It is not kept up to date for each allocation, as no decision reads it.
"""

from licorne_core.model.apps.application import Application
from licorne_core.values.resources import Items, Resources


def most_allocated(app: Application) -> Resources:
    """The most that was ever booked of real allocations or of placeholders, by resource name.

    Totals rise with every allocation. So they are looked at when they fall (`note_highest`), and
    here.
    """
    most = dict(app.highest)
    for total in (app.allocated, app.placeholder_allocated):
        for name, value in total.items():
            most[name] = max(value, most.get(name, 0))
    return most


def note_highest(app: Application, items: Items, *, placeholder: bool) -> None:
    """Note usage before amounts are freed: it may be the highest so far."""
    allocated = app.placeholder_allocated if placeholder else app.allocated
    highest = app.highest
    for name, _ in items:
        total = allocated[name]
        if total > highest.get(name, 0):
            highest[name] = total
