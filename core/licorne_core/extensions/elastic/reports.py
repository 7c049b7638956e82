"""Fields about elastic gangs in reports of applications."""

from dataclasses import dataclass

from licorne_core.extensions.elastic.sizes import Elastic
from licorne_core.model.apps.application import Application
from licorne_core.views.fields import Added


@dataclass(frozen=True, slots=True, kw_only=True)
class ElasticReport:
    """Size of an elastic gang, in members: `size` run or are being started.

    `leaving` of them are noticed, or are being stopped for others. A gang starts with `least` members
    together, and grows by `step` up to `most`, which is 0 if there is no maximum.
    """

    size: int
    leaving: int
    least: int
    most: int
    step: int


def _elastic(app: Application) -> ElasticReport | None:
    """Size of the application's elastic gang; None if its gang is not elastic."""
    units = app.gang.units
    if not isinstance(units, Elastic):
        return None
    least, most, step = units.terms
    return ElasticReport(size=units.size, leaving=units.leaving, least=least, most=most, step=step)


FIELDS = {"application": (Added("elastic", ElasticReport | None, lambda _, app: _elastic(app)),)}
