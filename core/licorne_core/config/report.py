"""Problems of a configuration, with places, and suggestions for words similar to supported ones.

All problems are collected before an error is raised.
"""

from collections.abc import Iterable
from difflib import get_close_matches

from licorne_core.config.caps import RESOURCE_TYPES, Cap
from licorne_core.values.errors import ConfigError, Problem, TextPlace, shown

USUAL = (
    *("vcore", "memory", "pods", "ephemeral-storage", "nvidia.com/gpu", "amd.com/gpu"),
    *("hugepages-1Gi", "hugepages-2Mi"),
)
"""Names under which resource managers report the resources of nodes."""

LONGEST = 64
"""Longest name, in characters, that is compared with others."""

_OTHER_NAMES = {
    **dict.fromkeys(("cpu", "cpus", "vcpu", "vcpus", "core", "cores", "millicpu"), "vcore"),
    "mem": "memory",
    "pod": "pods",
}
"""Names of these resources in other systems; Kubernetes, for instance, has ``cpu``."""

_QUOTA_PREFIXES = ("requests.", "limits.")
"""Prefixes of names in Kubernetes' quotas."""

_HYPHENS = dict.fromkeys(map(ord, "-_ "))

_LONG_ENOUGH = 5
"""Minimum length of a name that is recognized with one wrong letter: shorter names resemble too many."""


def meant_by(name: str) -> str:
    """The usual name that is probably meant; empty for a usual name, and for a custom one.

    The match ignores the case of letters, hyphens, and one letter that is added, missing, wrong or swapped.
    The names that Kubernetes uses are matched too. Names with other digits are different names.
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
    """True if the words differ only in one letter, or in two exchanged letters."""
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
"""Maximum number of words of one text that are compared, as a comparison takes some microseconds."""
ALIKE = 0.75
"""Minimum similarity of two words, from 0 to 1, for a suggestion."""


def stands_for(word: str, known: str) -> bool:
    """True if the word equals the pattern `known`, whose ``<part>`` matches any text."""
    begin, variable, rest = known.partition("<")
    if not variable:
        return word == known
    end = rest.partition(">")[2]
    return len(word) > len(begin) + len(end) and word.startswith(begin) and word.endswith(end)


def _begins_as(word: str, known: str) -> bool:
    """True if the word and the pattern `known` have a common beginning.

    The first part has to be the same or similar, and the word must have at least as many dots; a hyphen may
    stand for its only dot. Words of other programs may begin with the same letters.
    """
    stem = known.partition(".")[0]
    if word == stem:
        return word != known
    if "<" not in known:
        return False
    dotted = word if "." in word else word.replace("-", ".", 1)
    first = dotted.partition(".")[0]
    return (first == f"{stem}s" or _is_slip(first, stem)) and dotted.count(".") >= known.count(".")


class Similar:
    """Finds the most similar supported word; gives up after `MOST` words of a text.

    A ``<part>`` of a supported word stands for any text.
    """

    def __init__(self) -> None:
        """Start; no word was compared yet."""
        self._found: dict[tuple[str, tuple[str, ...]], str] = {}

    def to(self, word: str, known: tuple[str, ...]) -> str:
        """The other supported word that is probably meant, in any case of letters; empty if there is none."""
        if any(stands_for(word, one) for one in known):
            return ""
        lower = word.lower()
        begun = next((one for one in known if _begins_as(lower, one)), "")
        if len(word) > LONGEST:
            return begun
        key = word, known
        if key not in self._found:
            if len(self._found) == MOST:
                return begun
            whole = [one for one in known if "<" not in one]
            matches = get_close_matches(lower, whole, n=1, cutoff=ALIKE)
            # A word with a placeholder such as ``<part>`` is no suggestion for a word without one.
            other = not matches or ("<" in begun and matches[0].count(".") != word.count("."))
            self._found[key] = begun if other else matches[0]
        return self._found[key]


MAX_PROBLEMS = 500
MAX_MESSAGE = 500


class Report:
    """The problems and warnings of one text, and the place of each path in it.

    In strict mode a warning is a problem.
    """

    def __init__(self, *, strict: bool = False) -> None:
        """Start without problems."""
        self.strict = strict
        # As keys, so that a value that is read twice is reported once.
        self._warnings: dict[Problem, None] = {}
        self._more_warnings = False
        self._notes: dict[str, None] = {}
        self._problems: dict[Problem, None] = {}
        self._places: dict[str, TextPlace] = {}
        self._faulty: set[str] = set()
        self._counts: dict[Cap, int] = {}
        self._resource_types: set[str] = set()
        self._meant_resources: dict[str, str] = {}
        self._similar = Similar()

    @property
    def warnings(self) -> tuple[str, ...]:
        """Warnings: accepted parts that are probably mistakes, in the order of the text.

        If there are very many, the first found are kept, with a note that there are more.
        """
        shown = tuple(map(str, sorted(self._warnings, key=_place)))
        return (*shown, "there are more warnings") if self._more_warnings else shown

    def mark(self, path: str, line: int, column: int) -> None:
        """Record line and column of the value of the path."""
        self._places[path] = TextPlace(path=path, line=line, column=column)

    def place(self, path: str) -> TextPlace:
        """Place of the path's value or, if it is absent, of the innermost present value around it."""
        around = path
        while around and around not in self._places:
            around = around[: max(around.rfind("."), around.rfind("["), 0)]
        known = self._places.get(around, TextPlace(line=1, column=1))
        return TextPlace(path=path, line=known.line, column=known.column)

    def problem(self, message: str, path: str = "") -> None:
        """Report a problem, which makes the configuration unusable."""
        place = self.place(path)
        self.problem_at(message, path, place.line, place.column)

    def problem_at(self, message: str, path: str, line: int, column: int) -> None:
        """Report a problem at a place that differs from that of its path.

        Raises `ConfigError` when there are `MAX_PROBLEMS`, so that a hostile text ends early.
        """
        self._faulty.add(path)
        self._problems[_problem(message, path, line, column)] = None
        if len(self._problems) >= MAX_PROBLEMS:
            self.raise_problems()

    def warn(self, message: str, path: str) -> None:
        """Report something that is accepted and probably a mistake; it is a problem in strict mode."""
        if self.strict:
            self.problem(message, path)
            return
        place = self.place(path)
        warning = _problem(message, path, place.line, place.column)
        if len(self._warnings) < MAX_PROBLEMS:
            self._warnings[warning] = None
        elif warning not in self._warnings:
            self._more_warnings = True

    @property
    def notes(self) -> tuple[str, ...]:
        """Notes about keys without the expected effect, each once. In strict mode they are no problems."""
        return tuple(sorted(self._notes))

    def note(self, text: str) -> None:
        """Record that a key lacks an effect, which is neither a problem nor a mistake."""
        self._notes[text] = None

    def hint(self, word: str, known: Iterable[str]) -> str:
        """``, did you mean 'queues'?`` for a word that is similar to a supported one; else empty."""
        meant = self.meant(word, known)
        return f", did you mean '{meant}'?" if meant else ""

    def meant(self, word: str, known: Iterable[str]) -> str:
        """The most similar supported word; empty if there is none."""
        return self._similar.to(word, tuple(known))

    def key_of(self, word: str, known: Iterable[str]) -> str:
        """The supported key that equals, matches or resembles this word; empty if there is none."""
        known = tuple(known)
        return next((one for one in known if stands_for(word, one)), "") or self.meant(word, known)

    def meant_resource(self, name: str) -> str:
        """The usual resource that is probably meant by this name; empty in most cases."""
        meant = self._meant_resources.get(name)
        if meant is None:
            meant = meant_by(name) if len(self._meant_resources) < RESOURCE_TYPES.limit else ""
            self._meant_resources[name] = meant
        return meant

    def count(self, cap: Cap, path: str, number: int = 1) -> None:
        """Count items towards a cap of the whole text.

        Raises `ConfigError` as soon as there are too many, so that no more work is done.
        """
        total = self._counts[cap] = self._counts.get(cap, 0) + number
        self.check(cap.what, total, cap.limit, path)

    def count_resource(self, name: str, path: str) -> None:
        """Count a resource, unless it was named before; raises `ConfigError` like `count`."""
        if name not in self._resource_types:
            self._resource_types.add(name)
            self.count(RESOURCE_TYPES, path)

    def check(self, what: str, value: int, limit: int, path: str) -> None:
        """Raise a `ConfigError` immediately if the value is above the limit."""
        if value > limit:
            self.problem(f"{value} {what}, at most {limit} are allowed", path)
            self.raise_problems()

    def distrust(self, path: str) -> None:
        """Mark a value that was only partly read, so that no check draws conclusions from it."""
        self._faulty.add(path)

    def is_faulty(self, path: str) -> bool:
        """True if this value has a reported problem, and so cannot be used."""
        return path in self._faulty

    def raise_problems(self) -> None:
        """Raise a `ConfigError` with all problems in the order of the text, if there are any."""
        if not self._problems:
            return
        problems = sorted(self._problems, key=_place)
        if len(problems) >= MAX_PROBLEMS:
            problems.append(Problem(message="there are too many problems to continue"))
        raise ConfigError(problems)


def _place(problem: Problem) -> tuple[int, int]:
    return problem.line, problem.column


def _problem(message: str, path: str, line: int, column: int) -> Problem:
    return Problem(message=_tidy(message), path=_tidy(path), line=line, column=column)


def _tidy(text: str) -> str:
    """The text shortened and on one line, as a configuration may contain anything."""
    if len(text) > MAX_MESSAGE:
        text = f"{text[:MAX_MESSAGE]}…"
    if text.isprintable():
        return text
    return "".join(
        letter if letter.isprintable() else letter.encode("unicode_escape").decode("ascii") for letter in text
    )
