"""The pauses of asks for which no start was found."""

from dataclasses import dataclass, field

from support.oracle.books import AppRecord, AskClass
from support.oracle.maxima import Key
from support.oracle.order import Look

RETRY_SECONDS = 15.0
MOST_AGAIN = 16
MOST_FIRST = 16

Likeness = tuple[AskClass, frozenset[Key]]
"""The class of asks that fail together, and the maxima that bind them."""


@dataclass
class Pauses:
    """The times of the next searches for asks of a likeness without a start.

    `ends` has for each likeness the end of its pause, with the applications that failed last. `tries` are the
    failed searches since `since`: the application, and whether the class had failed before.
    """

    ends: dict[Likeness, tuple[float, str]] = field(default_factory=dict)
    since: float = 0.0
    tries: list[tuple[str, bool]] = field(default_factory=list)

    def copy(self) -> "Pauses":
        """An independent copy."""
        return Pauses(dict(self.ends), self.since, list(self.tries))

    def until(self, app: AppRecord, like: Likeness, now: float) -> float:
        """The end of the pause, or of the time with too many searches."""
        if like in self.ends and self.ends[like][0] > now:
            return self.ends[like][0]
        again = like in self.ends
        alike = [app_id for app_id, was_again in self.tries if was_again == again]
        most = MOST_AGAIN if again else MOST_FIRST if app.app_id in alike else 2 * MOST_FIRST
        is_over = now >= self.since + RETRY_SECONDS
        return now if is_over or len(alike) < most else self.since + RETRY_SECONDS

    def pause(self, look: Look, app: AppRecord, like: Likeness) -> float:
        """Record a failed search; return the end of the pause, which lets all other asks be tried first."""
        if look.now >= self.since + RETRY_SECONDS:
            waiting = {other: {one.ask_class for one in look.apps[other].awake()} for other in look.apps}
            self.ends = {
                one: end
                for one, end in self.ends.items()
                if one[0] in (waiting.get(end[1], ()) if one[1] else set().union(*waiting.values()))
            }
            self.since, self.tries = look.now, []
        self.tries.append((app.app_id, like in self.ends))
        count = len({*self.ends, like})
        time = look.now + RETRY_SECONDS * max(1.0, count / MOST_AGAIN)
        self.ends[like] = time, app.app_id
        return time

    def end(self, like: Likeness) -> None:
        """Record a found start."""
        self.ends.pop(like, None)
