"""Checks of sizes and numbers between the queues of a tree (spec § 2.5 #10 to #13, #17).

Check that fixed placement rules lead to queues that exist or may be created (spec § 2.5 #15).

Only what stands in the configuration is known here. So a chain is followed from its innermost
rule, which is directly below root, for as long as its rules do not depend on the application.
"""

from collections.abc import Mapping

from licorne_core.config.report import Report
from licorne_core.config.rules import chain_of, fixed_part
from licorne_core.config.schema import PlacementRuleConfig, QueueConfig
from licorne_core.values.names import ROOT
from licorne_core.values.resources import (
    EMPTY,
    Resources,
    add,
    describe,
    fits_max_undefined,
    is_zero,
    min_undefined,
)


def check_resources(queue: QueueConfig, report: Report, above: Resources = EMPTY) -> Resources:
    """Compare guaranteed and maximum of the queue with each other and with those around it.

    `above` is the effective maximum of the parent. Returns the queue's part of its parent's
    guarantee: its own guarantee, or, without one, the sum of its children's.
    """
    path = f"{queue.place.path}.resources"
    guaranteed, maximum = queue.guaranteed or EMPTY, queue.max or EMPTY
    if not fits_max_undefined(maximum, guaranteed):
        message = (
            f"guaranteed resource {describe(guaranteed)} is larger than "
            f"maximum resource {describe(maximum)} for queue {queue.name}"
        )
        report.problem(message, f"{path}.guaranteed")
    if not fits_max_undefined(above, maximum):
        message = (
            f"max resource of parent {describe(above)} is smaller than "
            f"maximum resource {describe(maximum)} for queue {queue.name}"
        )
        report.problem(message, f"{path}.max")
    effective = min_undefined(maximum, above)
    below: Resources = EMPTY
    for child in queue.queues:
        below = add(below, check_resources(child, report, effective))
    if not fits_max_undefined(guaranteed, below):
        message = (
            f"guaranteed resource of parent {describe(guaranteed)} is smaller than "
            f"sum of guaranteed resources {describe(below)} of the children for queue {queue.name}"
        )
        report.problem(message, f"{path}.guaranteed")
    if not fits_max_undefined(effective, below):
        message = (
            f"max resource {describe(effective)} is smaller than "
            f"sum of guaranteed resources {describe(below)} of the children for queue {queue.name}"
        )
        report.problem(message, f"{path}.max")
    return below if is_zero(guaranteed) else guaranteed


def check_max_applications(queue: QueueConfig, report: Report) -> None:
    """Check that below a queue with a maximum of applications each has one, and none is larger."""
    for child in queue.queues:
        path = f"{child.place.path}.maxapplications"
        if queue.max_applications and not report.is_faulty(path):
            if not child.max_applications:
                message = (
                    "maxApplications is either undefined or zero, which is not allowed "
                    "when parent queue's maxApplications is defined"
                )
                report.problem(message, path)
            elif child.max_applications > queue.max_applications:
                message = "parent maxApplications must be larger than child maxApplications"
                report.problem(message, path)
        check_max_applications(child, report)


def check_placement(rules: tuple[PlacementRuleConfig, ...], root: QueueConfig, report: Report) -> None:
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
            return "" if create else f"references non-existing queues ({path}) and create is 'false'"
        queue = child
    if leaf and queue.parent:
        return f"references a queue ({path}) which is not a leaf"
    if not leaf and not queue.parent:
        return f"references a queue ({path}) which is a leaf"
    return ""
