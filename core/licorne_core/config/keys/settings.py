"""The properties of queues, and the extra configuration (spec §§ 2.4, 2.8)."""

from licorne_core.config import properties as its
from licorne_core.config.keys.structure import Key, Kind, Section, words

_LEVELS = "`debug`, `info`, `warn`, `error`, `dpanic`, `panic`, `fatal`, or a number from -1 to 5"
_LEAF = "leaf"
_NOT_INHERITED = "any; not inherited"
_UP_TO = "1 to 9999999"

PROPERTIES = Section(
    (
        Key(
            its.APP_SORT_POLICY,
            Kind.WORD,
            "the order of applications: first come; least usage first; or first come, with new "
            "applications starting one at a time. Children of a parent are always ordered fairly",
            "5.2",
            default="fifo",
            choices=words(its.AppSortPolicy),
            where=_LEAF,
        ),
        Key(
            its.APP_SORT_PRIORITY,
            Kind.WORD,
            "`enabled`: priority first; `disabled`: priority only breaks ties",
            "2.4",
            default="enabled",
            choices=("enabled", "disabled"),
            where="any",
        ),
        Key(
            its.PRIORITY_OFFSET,
            Kind.INTEGER,
            "added to the priority that the parent sees",
            "4.11",
            default="0",
            allowed="-2147483648 to 2147483647",
            where=_NOT_INHERITED,
        ),
        Key(
            its.PRIORITY_POLICY,
            Kind.WORD,
            "`fence`: the parent sees only the offset",
            "4.11",
            default="default",
            choices=("default", "fence"),
            where=_NOT_INHERITED,
        ),
        Key(
            its.BACKOFF_THRESHOLD,
            Kind.INTEGER,
            "an application backs off after so many asks in a row without a fitting node; 0 is off",
            "8.3",
            default="0",
            allowed="0 to 18446744073709551615",
            where=_LEAF,
        ),
        Key(
            its.BACKOFF_DELAY,
            Kind.DURATION,
            "how long it backs off",
            "8.3",
            default="30s",
            where=_LEAF,
        ),
        Key(
            its.PREEMPTION_POLICY,
            Kind.WORD,
            "`fence`: asks inside have nobody outside stopped; `disabled`: nobody inside is "
            "stopped, but for asks that require their node and for a lowered maximum",
            "2.4",
            default="default",
            choices=words(its.PreemptionPolicy),
            where="any; only `disabled` is inherited",
        ),
        Key(
            its.PREEMPTION_DELAY,
            Kind.DURATION,
            "how long an ask waits before it has others stopped",
            "2.4",
            default="30s",
            where=_LEAF,
        ),
        Key(
            its.PREEMPTION_MINIMUM_RUNTIME,
            Kind.DURATION,
            "an allocation is no victim before it has run so long, but for asks that require their "
            "node; none is off",
            "9",
            where=_LEAF,
        ),
        Key(
            its.PREEMPTION_LOSS_LIMIT,
            Kind.AMOUNT_LIST,
            "what may be lost to preemption in an hour, as resources times seconds: "
            "`vcore=3600,memory=7200Gi`. Asks that require their node disregard it; none is off",
            "9",
            where=_LEAF,
        ),
        Key(
            its.PREEMPTION_VICTIM_ORDER,
            Kind.WORD,
            "which victims the asks of the queue take first: `age` the youngest; `cost` the lowest "
            "priority, then the least cost times seconds run",
            "9",
            default="age",
            choices=words(its.VictimOrder),
            where=_LEAF,
        ),
        Key(
            its.QUOTA_PREEMPTION_DELAY,
            Kind.DURATION,
            "how long after `max` was lowered the queue loses what it has above it; none is off",
            "9.6",
            where="managed",
        ),
        Key(
            its.RESERVATION_MAX_NODES,
            Kind.INTEGER,
            "how many nodes may be reserved at a time for asks in the queue and below; asks that "
            "require their node do not count. Without it root has a tenth of the nodes, and one in "
            "any case",
            "8.5",
            allowed="0 to 2147483647",
            where="any",
        ),
        Key(
            its.APP_RESERVATION_MAX_NODES,
            Kind.INTEGER,
            "the same for each application of the leaf; without it half of what root may have",
            "8.5",
            allowed="0 to 2147483647",
            where=_LEAF,
        ),
        Key(
            its.RESERVATION_EXCLUSIVE,
            Kind.FLAG,
            "true: a reserved node takes no other asks at all; false: it takes those that leave "
            "the reserved amounts free",
            "8.4",
            default="false",
            where=_LEAF,
        ),
        Key(
            its.RESERVATION_IDLE_TIMEOUT,
            Kind.DURATION,
            "how long a node stays reserved for an ask that a maximum, a limit or the RM stops",
            "8.6",
            default="2s",
            where=_LEAF,
        ),
    )
)
"""Keys with a meaning for the core. Others are free for any use."""

EXTRA = Section(
    (
        Key(
            "stateaware-as-fifo",
            Kind.FLAG,
            "true: `stateaware` leaves are `fifo`, as in newer releases of the older core",
            "2.4",
            default="false",
        ),
        Key(
            "event.trackingEnabled",
            Kind.FLAG,
            "false: nothing is noted, and asking for events is an error",
            "2.8",
            default="true",
        ),
        Key(
            "event.ringBufferCapacity",
            Kind.INTEGER,
            "how many events are kept, the newest; while somebody watches there may be more",
            "2.8",
            default="100000",
            allowed=_UP_TO,
        ),
        Key(
            "event.requestCapacity",
            Kind.INTEGER,
            "how many events one message to the RM has at the most",
            "2.8",
            default="1000",
            allowed=_UP_TO,
        ),
        Key(
            "event.RESTResponseSize",
            Kind.INTEGER,
            "how many events one batch over REST has at the most",
            "2.8",
            default="10000",
            allowed=_UP_TO,
        ),
        Key(
            "event.maxStreams",
            Kind.INTEGER,
            "how many may watch the RM's events at once",
            "2.8",
            default="100",
            allowed=_UP_TO,
        ),
        Key(
            "event.maxStreamsPerHost",
            Kind.INTEGER,
            "and how many of one peer: an identity, or a host where callers have none",
            "2.8",
            default="15",
            allowed=_UP_TO,
        ),
        Key(
            "health.checkInterval",
            Kind.ANY_DURATION,
            "how often health is checked; zero or less is off. Health is checked whenever it is asked for",
            "2.8",
            default="30s",
            works=False,
        ),
        Key(
            "log.level",
            Kind.TEXT,
            "from which level on the server writes lines",
            "2.8",
            allowed=_LEVELS,
        ),
        Key(
            "log.<logger>.level",
            Kind.TEXT,
            "the same for one logger and those below it. A logger that the server does not have "
            "is ignored, and the log says so",
            "2.8",
            allowed=_LEVELS,
        ),
    )
)
"""Keys that an RM may send in addition to the queues."""
