"""Suggestions for resource names that nearly match a usual one.

Also here:

* Suggestions for unknown words.
"""

from collections.abc import Sequence
from difflib import get_close_matches

from licorne_core.values.errors import shown

USUAL = (
    *("vcore", "memory", "pods", "ephemeral-storage", "nvidia.com/gpu", "amd.com/gpu"),
    *("hugepages-1Gi", "hugepages-2Mi"),
)
"""Names under which resource managers report the resources of nodes."""

LONGEST = 64
"""Characters of a name that is looked at."""

_OTHER_NAMES = {
    **dict.fromkeys(("cpu", "cpus", "vcpu", "vcpus", "core", "cores", "millicpu"), "vcore"),
    "mem": "memory",
    "pod": "pods",
}
"""Names of the same resource in other systems: Kubernetes has ``cpu``."""

_QUOTA_PREFIXES = ("requests.", "limits.")
"""Prefixes of names in Kubernetes' quotas."""

_HYPHENS = dict.fromkeys(map(ord, "-_ "))

_LONG_ENOUGH = 5
"""Letters of a name that is recognized by all but one: of shorter ones too many words are near."""


def meant_by(name: str) -> str:
    """Usual name that is probably meant; empty for a usual one, and for a custom one.

    The match ignores case of letters, hyphens, one letter too many, missing, wrong or swapped, and
    knows the names that Kubernetes uses. Names with other digits are different names.
    """
    if name in USUAL or len(name) > LONGEST:
        return ""
    short = name.lower()
    for prefix in _QUOTA_PREFIXES:
        short = short.removeprefix(prefix)
    if short in _OTHER_NAMES:
        return _OTHER_NAMES[short]
    squeezed = _squeezed(short)
    for usual in USUAL:
        if _is_slip(squeezed, _squeezed(usual.lower())):
            return usual
    return ""


def not_usual(name: str, meant: str) -> str:
    """Warning about a name that is nearly a usual one."""
    return f"resource '{shown(name)}' says nothing about {meant}, did you mean '{meant}'?"


def _squeezed(name: str) -> str:
    return name.translate(_HYPHENS)


def _is_slip(word: str, usual: str) -> bool:
    """True if the words are the same but for one letter, or two that changed places."""
    if word == usual:
        return True
    if len(usual) < _LONG_ENOUGH or word[:1] != usual[:1]:
        return False
    start = 0
    while word[start : start + 1] == usual[start : start + 1] and start < len(word):
        start += 1
    ours, theirs = word[start:], usual[start:]
    if any(map(str.isdigit, ours[:1] + theirs[:1])):
        return False
    return (
        ours[1:] == theirs[1:]
        or ours[1:] == theirs
        or ours == theirs[1:]
        or (ours[:2] == theirs[1::-1] and ours[2:] == theirs[2:])
    )


MOST = 1000
"""Words that are looked at in one text, as a comparison takes some microseconds."""
ALIKE = 0.75
"""Least similarity of two words, from 0 to 1, for a suggestion."""


class Similar:
    """Finds the known word that is most like another one; gives up in a text of very many."""

    def __init__(self) -> None:
        """Start empty."""
        self._found: dict[tuple[str, Sequence[str]], str] = {}

    def to(self, word: str, known: Sequence[str]) -> str:
        """The known word that may be meant, in any case of letters; empty for none."""
        if len(word) > LONGEST:
            return ""
        key = word, known
        if key not in self._found:
            if len(self._found) == MOST:
                return ""
            matches = get_close_matches(word.lower(), known, n=1, cutoff=ALIKE)
            self._found[key] = matches[0] if matches else ""
        return self._found[key]
