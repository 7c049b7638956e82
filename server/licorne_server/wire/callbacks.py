"""Callbacks for checks that an RM's hello opts into (spec §§ 1.6.12, 8.4, 9.4.5)."""

from licorne.v1 import session_pb2 as sp
from licorne_core.messages.commands import FailMode, PredicatePolicy
from licorne_server.wire.errors import invalid_argument

DEFAULT_DEADLINE = 2_000
MIN_DEADLINE = 10
MAX_DEADLINE = 60_000
_FIELD = "hello.callbacks.predicates"
_FAIL_MODES = {sp.FAIL_CLOSED: FailMode.CLOSED, sp.FAIL_OPEN: FailMode.OPEN}


def policy(callbacks: sp.Callbacks) -> PredicatePolicy | None:
    """The RM's policy of predicate checks; None if it has opted out.

    Raises:
        CallError: INVALID_ARGUMENT, naming the field.
    """
    if not callbacks.HasField("predicates"):
        return None
    wire = callbacks.predicates
    deadline = wire.deadline_milliseconds or DEFAULT_DEADLINE
    if not MIN_DEADLINE <= deadline <= MAX_DEADLINE:
        raise invalid_argument(
            f"deadline_milliseconds is {deadline}, it must lie between {MIN_DEADLINE} and "
            f"{MAX_DEADLINE}, or be 0 for {DEFAULT_DEADLINE}",
            f"{_FIELD}.deadline_milliseconds",
        )
    fail_mode = _FAIL_MODES.get(wire.fail_mode)
    if fail_mode is None:
        raise invalid_argument(f"unknown fail_mode {wire.fail_mode}", f"{_FIELD}.fail_mode")
    if wire.class_by not in sp.ClassBy.values():
        raise invalid_argument(f"unknown class_by {wire.class_by}", f"{_FIELD}.class_by")
    return PredicatePolicy(
        deadline=deadline / 1000, fail_mode=fail_mode, judges_victims=wire.judges_victims
    )
