"""Checks the arguments of a call of `State` or `Admin`, before anything is sent.

Protobuf would name neither the argument nor its value, and would take None for "not said".
"""

from collections.abc import Mapping
from functools import partial

from licorne.fields import Check, Range, flag, tags, text, whole

UINT32 = Range(0, 2**32 - 1, "0 and 2^32 - 1")
UINT64 = Range(0, 2**64 - 1, "0 and 2^64 - 1")
_REVISION = partial(whole, UINT64)

ARGUMENTS: Mapping[str, Check] = {
    "application": text,
    "application_id": text,
    "base_revision": _REVISION,
    "comment": text,
    "compare": flag,
    "config": text,
    "count": partial(whole, UINT32),
    "extra_config": tags,
    "force": flag,
    "instance": text,
    "key": text,
    "level": text,
    "limit": partial(whole, UINT32),
    "logger": text,
    "name": text,
    "node_id": text,
    "partition": text,
    "policy_group": text,
    "queue": text,
    "reason": text,
    "revision": _REVISION,
    "rm_id": text,
    "schedulable": flag,
    "start": partial(whole, UINT64),
    "state": text,
    "stopped": flag,
    "strict": flag,
    "with_config": flag,
}
"""The check of each argument, by its name."""

# A value of such a type is wrong because of what it is, any other because of its type.
_TYPES: Mapping[Check, type] = {text: str, tags: Mapping, flag: bool}


def check_arguments(**values: object) -> None:
    """Look at the arguments of a call, given by their names.

    Raises TypeError for the first one of another type, and ValueError for one out of its range.
    """
    for name, value in values.items():
        check = ARGUMENTS[name]
        if problem := check(name, value):
            fits = isinstance(value, _TYPES.get(check, int)) and not isinstance(value, bool)
            raise (ValueError if fits else TypeError)(problem)
