"""Creates the units of an elastic gang for applications whose tags ask for one."""

from collections.abc import Mapping
from typing import Final

from licorne_core.extensions.elastic.sizes import Elastic
from licorne_core.extensions.elastic.terms import read_elastic
from licorne_core.model.apps.application import Application
from licorne_core.model.apps.gang import GangUnits
from licorne_core.model.apps.members import units_of
from licorne_core.model.apps.requests import VICTIMS
from licorne_core.points import Extension
from licorne_core.values.errors import InvariantBroken
from licorne_core.values.ids import AppId


class ElasticGangs(Extension):
    """Elastic gangs of a partition; all their state is in their units."""

    def units(self, tags: Mapping[str, str]) -> GangUnits | None:
        """The minimum and the steps, by the tags of a new application; None if its gang is not elastic."""
        terms = read_elastic(tags)
        return None if terms is None else Elastic(terms)

    def recount(self, applications: Mapping[AppId, Application], *, settled: bool) -> None:
        """Compare the counts of members, and of members that are not being stopped, with the books."""
        for app in applications.values():
            units = app.gang.units
            if not isinstance(units, Elastic):
                continue
            members = [request for request in app.booked() if app.gang.has_member(request.ask)]
            sizes = (len(members), sum(request.state in VICTIMS for request in members))
            booked = (units.size, units.leaving)
            if sizes != booked:
                raise InvariantBroken(f"G1: {app!r}: members and those that leave are {sizes}, not {booked}")
            if units.behind != (sizes[0] - sizes[1] >= units.terms.least):
                raise InvariantBroken(f"G1: {app!r} has {sizes} members, and is behind: {units.behind}")
            staying = [request for request in members if request.state not in VICTIMS]
            if staying != [request for unit in units_of(app) for request in unit]:
                raise InvariantBroken(f"G1: {app!r}: those that stay are {staying}")


KIND: Final = ElasticGangs
