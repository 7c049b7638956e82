"""Checks of sizes and numbers between the queues of a tree (spec § 2.5 #10 to #13, #17)."""

from licorne_core.config.report import Report
from licorne_core.config.schema import QueueConfig
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
