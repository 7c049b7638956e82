"""The stage of a scenario: a core with its clock, and a parsed line of the scenario."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from licorne_core.messages.commands import Command
from licorne_core.messages.effects import Effect
from licorne_core.values.ids import PartitionName
from scenarios.printing import told
from support.core.builders import RM
from support.core.driver import Driver


@dataclass
class Line:
    """One command of a scenario: words, settings as ``name=value``, and the indented text below."""

    words: list[str]
    settings: dict[str, str]
    text: str = ""

    @staticmethod
    def read(line: str, text: str = "") -> "Line":
        """Parse a line; ``k1..k3`` stands for three words."""
        words: list[str] = []
        settings: dict[str, str] = {}
        for word in line.split():
            name, is_setting, value = word.partition("=")
            if is_setting:
                settings[name] = value
            else:
                words += spread(word)
        return Line(words, settings, text)

    def take(self, name: str, default: str = "") -> str:
        """Remove and return one setting, so that `resources` does not read it."""
        return self.settings.pop(name, default)

    def take_all(self, prefix: str) -> dict[str, str]:
        """Remove and return the settings whose names have this prefix, by the rest of the name."""
        names = [name for name in self.settings if name.startswith(prefix)]
        return {name.removeprefix(prefix): self.settings.pop(name) for name in names}

    def resources(self) -> dict[str, int]:
        """The remaining settings: amounts in the core's units."""
        return {name: int(value) for name, value in self.settings.items()}


@dataclass
class Stage:
    """The context of verbs. `rm` is the RM of the present line."""

    driver: Driver = field(default_factory=Driver)
    rm: str = RM
    rest: Command | None = None
    """Remainder of a large command."""

    def send(self, command: Command) -> list[str]:
        """Process a command; return the printed effects."""
        return self.told(self.driver.send(command))

    def hand_in(self, line: Line, command: Command) -> list[str]:
        """Process a command; with ``begin=yes`` only its first slice."""
        if line.take("begin") != "yes":
            return self.send(command)
        effects = self.driver.begin(command)
        self.rest, self.driver.rest = self.driver.rest, None
        return self.told(effects)

    def partition(self, line: Line) -> PartitionName:
        """The partition of the RM that a line names by ``partition=P``, or `default`."""
        return PartitionName(f"[{self.rm}]{line.take('partition', 'default')}")

    def told(self, effects: Iterable[Effect]) -> list[str]:
        """The printed effects, with the name of their RM if there are several."""
        several = len(self.driver.views.rms()) > 1
        return [f"{effect.rm_id}: {line}" if several else line for effect in effects for line in told(effect)]


Verb = Callable[[Stage, Line], list[str]]


def spread(word: str) -> list[str]:
    """``k1..k3`` as k1, k2, k3; any other word as it is."""
    first, is_range, last = word.partition("..")
    stem = first.rstrip("0123456789")
    if not is_range or not last.startswith(stem):
        return [word]
    numbers = range(int(first.removeprefix(stem)), int(last.removeprefix(stem)) + 1)
    return [f"{stem}{number}" for number in numbers]
