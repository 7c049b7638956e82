"""Choosing by attributes, in the words of kubectl: ``zone=a,kind!=spot,gpu,!old``."""

import argparse
from collections.abc import Mapping
from dataclasses import dataclass

NO_KEY = " \t()<>"
"""No part of a key: who writes ``zone in (a,b)`` or ``gpus>2`` must not get an empty list."""


@dataclass(frozen=True, slots=True)
class Requirement:
    """The wanted value of one attribute; None means any value."""

    key: str
    value: str | None
    wanted: bool

    def takes(self, attributes: Mapping[str, str]) -> bool:
        """True if the attributes satisfy it."""
        if self.value is None:
            return (self.key in attributes) == self.wanted
        return (attributes.get(self.key) == self.value) == self.wanted


@dataclass(frozen=True, slots=True)
class Selector:
    """All that has to hold."""

    requirements: tuple[Requirement, ...] = ()

    def takes(self, attributes: Mapping[str, str]) -> bool:
        """True if the attributes satisfy all requirements."""
        return all(requirement.takes(attributes) for requirement in self.requirements)


def selector(text: str) -> Selector:
    """The selector in a text; what has no key, or is no such word, is a usage error."""
    return Selector(tuple(_requirement(part) for part in text.split(",") if part.strip()))


def _requirement(part: str) -> Requirement:
    key, equals, value = part.strip().partition("=")
    wanted = not key.endswith("!")
    key = key.removesuffix("!").strip()
    if not equals:
        wanted = not key.startswith("!")
        key = key.removeprefix("!").strip()
    if not key or any(sign in key for sign in NO_KEY):
        raise argparse.ArgumentTypeError(f"{part}: KEY=VALUE, KEY!=VALUE, KEY or !KEY was expected")
    return Requirement(key, value.removeprefix("=").strip() if equals else None, wanted)


def add_selector_argument(parser: argparse.ArgumentParser) -> None:
    """Add `-l`."""
    parser.add_argument(
        "-l",
        "--selector",
        type=selector,
        default=Selector(),
        metavar="KEY=VALUE,…",
        help="only those with these attributes; also KEY!=VALUE, KEY and !KEY",
    )
