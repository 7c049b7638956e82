"""What is due when, in one list that is searched each time."""

Name = tuple[str, str]


class Timers:
    """At most one deadline for each name, in unix seconds."""

    def __init__(self) -> None:
        """None."""
        self._due: dict[Name, tuple[float, int]] = {}
        self._made = 0

    def __contains__(self, name: Name) -> bool:
        """Whether the name has a deadline."""
        return name in self._due

    def set(self, name: Name, at: float) -> None:
        """Give the name another deadline."""
        self._made += 1
        self._due[name] = (at, self._made)

    def cancel(self, name: Name) -> None:
        """Take its deadline away."""
        self._due.pop(name, None)

    def take(self, now: float) -> Name | None:
        """The name that is due first, and was given its deadline first; it is due no more."""
        first = min(self._due, key=lambda name: self._due[name], default=None)
        if first is None or self._due[first][0] > now:
            return None
        del self._due[first]
        return first
