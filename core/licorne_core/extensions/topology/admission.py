"""The terms of the gangs of new applications, and which of them a partition takes."""

from collections.abc import Mapping, Sequence

from licorne_core.extensions.topology.terms import SLICE, TOPOLOGY, read_slice, read_topology
from licorne_core.model.apps.gang import DomainTerms, Gang
from licorne_core.values.errors import Refusal, Rejected, shown
from licorne_core.values.ids import AppId


def read_terms(tags: Mapping[str, str]) -> DomainTerms | None:
    """Terms of a gang; None for tags without any. Raises Rejected as the readers."""
    if TOPOLOGY not in tags and SLICE not in tags:
        return None
    return DomainTerms(*read_topology(tags), *read_slice(tags))


def check_terms(app_id: AppId, gang: Gang, levels: Sequence[str]) -> None:
    """Refuse terms without a gang, or of a level that the partition does not have.

    Raises:
        Rejected: the application cannot have these terms.
    """
    terms = gang.terms
    if terms is None:
        return
    tag = SLICE if not terms.level else TOPOLOGY
    if gang.units is None and not gang.is_wanted:
        raise Rejected(
            f"application {app_id} has tag {tag}, which needs a gang, and no placeholderAsk",
            Refusal.GANG_NOT_POSSIBLE,
        )
    for name, level in ((TOPOLOGY, terms.level), (SLICE, terms.slice_level)):
        if level and level not in levels:
            known = f"it has {', '.join(levels)}" if levels else "topology.levels is not set"
            raise Rejected(
                f"application {app_id}: tag {name} names topology level '{shown(level)}', which the "
                f"partition does not have: {known}",
                Refusal.GANG_NOT_POSSIBLE,
            )
