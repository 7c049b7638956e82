"""Fields about back-offs in reports of queues and applications."""

from licorne_core.extensions.back_off import DELAY, NAME, STANDARD_DELAY
from licorne_core.views.fields import Added, Moment, Span

FIELDS = {
    "queue": (
        Added("backoff_threshold", int, lambda _, queue: queue.settings.of(NAME) or 0),
        Added("backoff_delay", Span, lambda _, queue: queue.settings.of(DELAY, STANDARD_DELAY)),
    ),
    # Time at which the back-off ends, in unix seconds; 0.0 if there is none.
    "application": (Added("backoff_until", Moment, lambda own, app: own.ends_at(app)),),
}
