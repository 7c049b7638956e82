"""The invariant of the places of lost members (`lost_places.py`).

P1  A lost place and its application, which is present and has the bit, refer to each other. A place with
`is_kept` has a deadline; a place without it has no node.
"""

from licorne_core.extensions.topology import NAME
from licorne_core.extensions.topology.lost_places import LostPlaces, timer_of
from licorne_core.features import BITS
from licorne_core.scheduling.rules import CheckContext
from licorne_core.views.audit.rules import require


def check_places(places: LostPlaces, context: CheckContext) -> None:
    """Raise InvariantBroken if the rule is broken."""
    known = {room for app in context.applications.values() for room in app.gang.rooms}
    require("P1", known == {*places.present}, f"{len(known)} rooms are known, {len(places.present)} places")
    require("P1", known == {*context.claims.rooms}, f"{len(context.claims.rooms)} rooms are kept")
    for place in places.present:
        at = f"place of {place.app.app_id}/{place.key}"
        require("P1", place.is_kept == (timer_of(place) in context.timers), f"{at}: {place.is_kept}")
        require("P1", bool(place.app.interests & BITS[NAME]), f"{at}: its end would be told to nobody")
        require("P1", place.is_kept or place.node is None, f"{at} is on {place.node} without being kept")
