"""Scenarios of `licorne bench` that are measured alone, and the options that go with each."""

import argparse
from collections.abc import Mapping
from dataclasses import dataclass

from licorne_cli.connection.failures import UsageError

OF_PREDICATES = ("untagged", "refuse", "answer_after", "table")


@dataclass(frozen=True, slots=True)
class Alone:
    """Scenarios by name with their texts, their own options, and those that they cannot have."""

    scenarios: Mapping[str, str]
    own: tuple[str, ...]
    refused: tuple[str, ...]

    def check(self, args: argparse.Namespace) -> bool:
        """True if one of these is wanted, which is so with options that go with it.

        Raises:
            UsageError: the options make no sense together.
        """
        name = args.scenario
        if name not in self.scenarios:
            for option in given(args, self.own):
                raise UsageError(f"{option} is for {' and '.join(self.scenarios)} only")
            return False
        for option in given(args, (*self.refused, *OF_PREDICATES)):
            raise UsageError(f"{option} cannot be used with {name}")
        if args.more:
            raise UsageError(f"{name} is measured alone, without {args.more[0]}")
        return True


def given(args: argparse.Namespace, names: tuple[str, ...]) -> list[str]:
    """The options of these names that were given."""
    return [f"--{name.replace('_', '-')}" for name in names if getattr(args, name) is not None]
