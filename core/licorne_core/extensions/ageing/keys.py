"""The property `ageing` of a leaf, such as ``1/1h max 50``."""

from typing import Final

from licorne_core.config.extra import parse_duration
from licorne_core.config.forms import INTEGER, Form, Property, UnusableError
from licorne_core.config.kinds import Key, Kind
from licorne_core.extensions.ageing.terms import Ageing
from licorne_core.values.ranking import INT32_MAX
from licorne_core.values.windows import DAY

NAME: Final = "ageing"

STEPS: Final = 100
"""Number of steps up to the maximum, if the text gives none."""


def _read(text: str) -> Ageing | None:
    """A gain for each duration, and a maximum, from a text such as ``1/1h max 50``; None for ``off``."""
    if text.strip().lower() == "off":
        return None
    gain, _, rest = text.partition("/")
    every, *bound = rest.split() or [""]
    seconds = parse_duration(every)
    if seconds is None or (bound and (len(bound) != 2 or bound[0].lower() != "max")):
        raise UnusableError("is no gain for each duration, such as 1/1h or 1/1h max 50")
    if not 1 <= seconds <= 365 * DAY:
        raise UnusableError("has a duration that is not from 1s to 8760h")
    step = int(gain) if INTEGER.matches(gain.strip()) else 0
    if not 1 <= step <= INT32_MAX:
        raise UnusableError(f"has a gain that is no whole number from 1 to {INT32_MAX}")
    if not bound:
        return Ageing(step, seconds, min(STEPS * step, INT32_MAX))
    most = int(bound[1]) if INTEGER.matches(bound[1]) else 0
    if not step <= most <= INT32_MAX:
        raise UnusableError(f"has a max that is no whole number from the gain to {INT32_MAX}")
    return Ageing(step, seconds, most)


def _write(terms: Ageing | None) -> str:
    return "off" if terms is None else f"{terms.step}/{terms.every:g}s max {terms.most}"


FORM: Final = Form(
    Kind.GAIN,
    _read,
    _write,
    allowed=f"duration from 1s to 8760h, N from 1, M from N and by default {STEPS} times N; or `off`",
)


PROPERTIES = (
    Property(
        Key(
            NAME,
            FORM.kind,
            "an application is ordered by a priority that is N higher for each duration that its oldest ask "
            "has waited, at most M. Preemption disregards it",
            "5.2",
            FORM.write(None),
            allowed=FORM.allowed,
            where="leaf",
        ),
        NAME,
        FORM,
    ),
)
