"""Back-offs of applications, under the names of the older core."""

from licorne_server.wire.responses import point_in_time

QUEUE = {"unschedAskBackoff": "backoff_threshold", "askBackoffDelay": "backoff_delay"}
APPLICATION = {"backoffDeadline": ("backoff_until", point_in_time)}
APPLICATION_OPTIONAL = {"backoffDeadline": "backoff_until"}
APPLICATION_ON_PAGE = {"backoffUntil": "backoff_until"}
APPLICATION_OF_STATE = {"backoff_deadline": "backoff_until"}
