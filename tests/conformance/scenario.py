"""Parser of scenario files, whose format `clients/conformance/README.md` describes."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from support.docs.pages import ROOT

FOLDER = ROOT / "clients" / "conformance" / "scenarios"
_VARIABLE = re.compile(r"\{(\w+)\}")
_KEYS = {"about", "seeds", "tls", "members", "completing", "peers", "steps"}
VERBS: Mapping[str, frozenset[str]] = {
    "connect": frozenset(),
    "do": frozenset(),
    "expect": frozenset({"peer", "in_order", "before", "within"}),
    "absent": frozenset({"peer"}),
    "never": frozenset({"peer"}),
    "once": frozenset({"peer", "by"}),
    "server": frozenset({"member"}),
    "network": frozenset({"peer", "after", "times", "at_least"}),
    "members": frozenset({"member"}),
    "state": frozenset({"at", "is", "count", "status"}),
}
"""The verbs of steps, and the other fields of each; `do` and `connect` may have any fields."""
FREE = frozenset({"connect", "do"})


class BadScenario(Exception):
    """A scenario file violates the format; the text names the file and the place."""


@dataclass(frozen=True, slots=True)
class Step:
    """One step: its verb, the verb's argument, and the other fields."""

    place: str
    """The place in the file, such as ``steps[3]``."""
    verb: str
    given: Any
    rest: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Scenario:
    """One file, with all repetitions expanded."""

    name: str
    about: str
    seeds: tuple[int, ...]
    """Each seed is a run of its own. A scenario without random actions has the one seed 0."""
    tls: bool
    """True if the server requires certificates; every peer presents that of the RM rm1."""
    members: int
    """The number of servers that share the RMs; 1 for a single server."""
    completing: float
    """Seconds for which applications are Completing; 0 for the default."""
    peers: Mapping[str, Mapping[str, Any]]
    """The fields of each peer's first command, by name, without the target."""
    steps: tuple[Step, ...]


def read(path: Path) -> Scenario:
    """The scenario in a file.

    Raises:     BadScenario: the file violates the format.
    """
    try:
        return parse(path.stem, yaml.safe_load(path.read_text(encoding="utf-8")))
    except yaml.YAMLError as error:
        raise BadScenario(f"{path.name}: {error}") from None


def parse(name: str, document: Any) -> Scenario:
    """The scenario in a parsed document.

    Raises:     BadScenario: the document violates the format.
    """
    try:
        _check(isinstance(document, dict), "a mapping was expected")
        _check(not document.keys() - _KEYS, f"unknown: {sorted(document.keys() - _KEYS)}")
        _check(isinstance(document.get("about"), str), "about: a text was expected")
        tls = document.get("tls", False)
        _check(isinstance(tls, bool), "tls: true or false was expected")
        members = document.get("members", 1)
        _check(members in (1, 2), "members: 1 or 2 was expected")
        completing = document.get("completing", 0)
        _check(
            type(completing) in (int, float) and completing >= 0,
            "completing: a number of seconds was expected",
        )
        peers = document.get("peers")
        _check(isinstance(peers, dict) and bool(peers), "peers: at least one was expected")
        seeds = document.get("seeds", [0])
        _check(
            isinstance(seeds, list) and bool(seeds) and all(isinstance(n, int) for n in seeds),
            "seeds: a list of whole numbers was expected",
        )
        steps = tuple(_steps(document.get("steps"), "steps", {}))
        for step in steps:
            peer = step.given if step.verb == "connect" else step.rest.get("peer")
            _check(peer is None or peer in peers, f"{step.place}: there is no peer {peer!r}")
    except BadScenario as error:
        raise BadScenario(f"{name}: {error}") from None
    return Scenario(name, document["about"], tuple(seeds), tls, members, completing, peers, steps)


def _check(is_so: object, text: str) -> None:
    if not is_so:
        raise BadScenario(text)


def _steps(given: Any, place: str, variables: Mapping[str, int]) -> Iterator[Step]:
    """The steps of a list, including those of its groups."""
    _check(isinstance(given, list) and given, f"{place}: a list of steps was expected")
    for number, item in enumerate(given):
        here = f"{place}[{number}]"
        _check(isinstance(item, dict), f"{here}: a mapping was expected")
        for values, body in _repeated(item, here, variables):
            if "steps" in body:
                _check(len(body) == 1, f"{here}: a group has nothing beside its steps")
                yield from _steps(body["steps"], f"{here}.steps", values)
            else:
                yield _step(body, here, values)


def _step(body: Mapping[str, Any], place: str, variables: Mapping[str, int]) -> Step:
    verbs = [verb for verb in VERBS if verb in body]
    _check(len(verbs) == 1, f"{place}: one of {', '.join(VERBS)} was expected")
    verb = verbs[0]
    rest = {key: value for key, value in body.items() if key != verb}
    if verb not in FREE:
        unknown = rest.keys() - VERBS[verb]
        _check(not unknown, f"{place}: unknown beside {verb}: {sorted(unknown)}")
    return Step(place, verb, _filled(body[verb], place, variables), _filled(rest, place, variables))


def _repeated(
    item: Mapping[str, Any], place: str, variables: Mapping[str, int]
) -> Iterator[tuple[Mapping[str, int], Mapping[str, Any]]]:
    """The item once for each number of its `repeat`, with the variables of that number."""
    if "repeat" not in item:
        yield variables, item
        return
    repeat = item["repeat"]
    _check(
        isinstance(repeat, dict) and len(repeat) == 1,
        f"{place}: repeat: one variable was expected, such as {{n: 10}} or {{n: [3, 7]}}",
    )
    ((variable, span),) = repeat.items()
    first, last = span if isinstance(span, list) and len(span) == 2 else (1, span)
    _check(
        isinstance(first, int) and isinstance(last, int) and first <= last,
        f"{place}: repeat: a number or two were expected for {variable}",
    )
    body = {key: value for key, value in item.items() if key != "repeat"}
    for number in range(first, last + 1):
        yield {**variables, str(variable): number}, body


def _filled(value: Any, place: str, variables: Mapping[str, int]) -> Any:
    """The value with its lists repeated and with the variables in its texts."""
    match value:
        case str():
            return _VARIABLE.sub(lambda found: str(variables.get(found[1], found[0])), value)
        case dict():
            # YAML reads a bare `on`, `off`, `yes` or `no` as a truth value.
            odd = [key for key in value if not isinstance(key, str)]
            _check(not odd, f"{place}: a key is to be a text, in quotes if need be: {odd}")
            return {key: _filled(below, place, variables) for key, below in value.items()}
        case list():
            return [filled for item in value for filled in _items(item, place, variables)]
        case _:
            return value


def _items(item: Any, place: str, variables: Mapping[str, int]) -> Iterator[Any]:
    """The texts of one entry of a list. An entry ``{repeat: …, text: …}`` stands for several."""
    if not isinstance(item, dict):
        yield _filled(item, place, variables)
        return
    for values, body in _repeated(item, place, variables):
        is_text = "repeat" in item and body.keys() == {"text"}
        yield _filled(body["text"] if is_text else body, place, values)
