"""Check that fixed placement rules lead to queues that exist or may be created (spec § 2.5 #15).

Only what stands in the configuration is known here. So a chain is followed from its innermost
rule, which is directly below root, for as long as its rules do not depend on the application.
"""

from collections.abc import Mapping

from licorne_core.config.report import Report
from licorne_core.config.rules import chain_of, fixed_part
from licorne_core.config.schema import PlacementRuleConfig, QueueConfig
from licorne_core.values.names import ROOT


def check_placement(
    rules: tuple[PlacementRuleConfig, ...], root: QueueConfig, report: Report
) -> None:
    """Follow the fixed part of every rule's chain through the configured queues."""
    known = _by_path(root)
    for number, rule in enumerate(rules):
        chain = chain_of(rule)
        if any(_is_broken(link, report) for link in chain):
            continue
        names = "->".join(link.name for link in chain)
        problem = _problem_of(chain, known)
        if problem:
            report.problem(f"placement rule no. #{number} ({names}) {problem}", rule.place.path)


def _is_broken(rule: PlacementRuleConfig, report: Report) -> bool:
    """True if a problem of the rule itself was reported already, so that its path means nothing."""
    return any(report.is_faulty(f"{rule.place.path}.{key}") for key in ("name", "value", "parent"))


def _by_path(root: QueueConfig) -> Mapping[str, QueueConfig]:
    known: dict[str, QueueConfig] = {}
    waiting = [(ROOT, root)]
    while waiting:
        path, queue = waiting.pop()
        known[path] = queue
        waiting += [(f"{path}.{child.name}", child) for child in queue.queues]
    return known


def _problem_of(chain: list[PlacementRuleConfig], known: Mapping[str, QueueConfig]) -> str:
    """Error of the fixed part of the chain; empty for none."""
    path = ROOT
    for link in reversed(chain):
        part = fixed_part(link)
        if part is None:
            break
        path = part.names if part.qualified else f"{path}.{part.names}"
        problem = _reach(path, known, create=link.create, leaf=link is chain[0])
        if problem:
            return problem
    return ""


def _reach(path: str, known: Mapping[str, QueueConfig], *, create: bool, leaf: bool) -> str:
    """Error of a path without an existing or creatable leaf (else, parent); or empty."""
    queue, reached = known[ROOT], ROOT
    for name in path.split(".")[1:]:
        reached = f"{reached}.{name}"
        child = known.get(reached)
        if child is None:
            if not queue.parent:
                return (
                    f"references non-existing queues ({path}) which cannot be created "
                    f"because the last queue ({queue.name}) in the hierarchy is a leaf"
                )
            return (
                "" if create else f"references non-existing queues ({path}) and create is 'false'"
            )
        queue = child
    if leaf and queue.parent:
        return f"references a queue ({path}) which is not a leaf"
    if not leaf and not queue.parent:
        return f"references a queue ({path}) which is a leaf"
    return ""
