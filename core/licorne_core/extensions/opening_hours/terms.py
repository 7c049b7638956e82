"""Opening hours of a leaf: spans of the day, and when they begin and end."""

from typing import Final, NamedTuple

from licorne_core.values.windows import DAY, HOUR, Window, window_at

MINUTE: Final = 60


class Stretch(NamedTuple):
    """An interval of the day, in seconds: `begin` is inclusive, `end` exclusive."""

    begin: int
    end: int


class OpeningHours(NamedTuple):
    """The open parts of each day in UTC, in order; there is closed time between any two, and every day.

    Hours past midnight are two parts: one until the end of a day, one from the beginning of the next.
    """

    parts: tuple[Stretch, ...]

    def at(self, time: float) -> tuple[bool, float]:
        """True if a leaf is open at a time, and the time of the next change; both in unix seconds.

        The returned time is always later than `time`.
        """
        midnight = window_at(Window.DAY, time).begin
        first = self.parts[0]
        for begin, end in self.parts:
            if time < midnight + begin:
                return False, float(midnight + begin)
            if time < midnight + end:
                goes_on = first.end if end == DAY and first.begin == 0 else 0
                return True, float(midnight + end + goes_on)
        return False, float(midnight + DAY + first.begin)


def joined(spans: list[Stretch]) -> tuple[Stretch, ...]:
    """The union of the spans, in order; a span that ends before its beginning extends past midnight."""
    parts = []
    for begin, end in spans:
        if begin < end:
            parts.append(Stretch(begin, end))
        else:
            parts += [Stretch(begin, DAY), Stretch(0, end)]
    found: list[Stretch] = []
    for begin, end in sorted(parts):
        if found and begin <= found[-1].end:
            last = found.pop()
            found.append(Stretch(last.begin, max(last.end, end)))
        elif begin < end:
            found.append(Stretch(begin, end))
    return tuple(found)


def clock_time(seconds: float) -> str:
    """A time of day, such as ``22:00``, from seconds of the day or unix seconds."""
    hours, rest = divmod(int(seconds) % DAY, HOUR)
    return f"{hours:02}:{rest // MINUTE:02}"
