"""The keys of the document, of a partition, and of its placement rules (spec §§ 2.1, 3)."""

from licorne_core.config.keys.queues import Key, Kind, Section, words
from licorne_core.config.schema import NodeSortType
from licorne_core.values.rule_kinds import RULES

RESOLVERS = ("os", "ldap", "test")

FILTER = Section(
    (
        Key(
            "type",
            Kind.TEXT,
            "`allow`: the rule is for those who are listed; `deny`: for all others. In any case of letters",
            "3.9",
            default="allow",
            choices=("allow", "deny"),
        ),
        Key(
            "users",
            Kind.TEXTS,
            "users; a single entry with one of `^$*+?()[{}|` in it is a regular expression, "
            "which may match anywhere",
            "3.9",
            allowed="names, or one regular expression",
        ),
        Key(
            "groups",
            Kind.TEXTS,
            "groups, read as `users` is",
            "3.9",
            allowed="names, or one regular expression",
        ),
    )
)

RULE = Section(
    (
        Key(
            "name",
            Kind.TEXT,
            "needed: the kind of the rule, in any case of letters",
            "3",
            choices=tuple(RULES),
        ),
        Key(
            "value",
            Kind.TEXT,
            "what the kind takes: `fixed` a queue, `tag` the name of a tag. Both need it",
            "3",
        ),
        Key(
            "create",
            Kind.FLAG,
            "true: the queue need not exist, and is made",
            "3",
            default="false",
        ),
        Key(
            "parent",
            Kind.MAPPING,
            "the rule that says what comes before the name; none means directly below root",
            "3",
            allowed="a placement rule, or a list of one",
        ),
        Key("filter", Kind.MAPPING, "for whom the rule is; none means all", "3.9", inside=FILTER),
    )
)

NODE_SORT = Section(
    (
        Key(
            "type",
            Kind.TEXT,
            "`fair`: the emptiest node first; `binpacking`: the fullest first; `spread`: the "
            "emptiest group of nodes with one value of the attribute, and in it the emptiest node. "
            "How empty a group is, is the mean over its nodes, drained ones too; nodes without the "
            "attribute are one more group. `spread` costs more the larger the groups are: about "
            "0.2 ms a decision with 100 nodes in each, 4 ms with 1000",
            "7.5",
            default=NodeSortType.FAIR.value,
            choices=words(NodeSortType),
        ),
        Key(
            "attribute",
            Kind.TEXT,
            "the node attribute whose values are spread over, such as `si/zone`",
            "7.5",
            allowed="needed for `spread`, refused for any other type",
        ),
        Key(
            "resourceweights",
            Kind.NAMED_NUMBERS,
            "the weight of each resource; when any is given only those count",
            "7.5",
            default="{vcore: 1, memory: 1}",
            allowed="each from 0 to 1e9",
        ),
    )
)

PREEMPTION = Section(
    (
        Key(
            "enabled",
            Kind.FLAG,
            "whether queues take back what they are guaranteed",
            "2.1",
            default="true",
        ),
        Key(
            "quotapreemptionenabled",
            Kind.FLAG,
            "whether queues lose what they have above a lowered maximum",
            "9.6",
            default="false",
        ),
    )
)

RESOLVER = Section(
    (
        Key(
            "type",
            Kind.TEXT,
            "where groups of users are looked up; for now a user without groups is in one of the "
            "same name, whatever it says",
            "2.1",
            choices=RESOLVERS,
            works=False,
        ),
    )
)

PARTITION = Section(
    (
        Key(
            "name",
            Kind.TEXT,
            "empty or any case of `default` means `default`. Requests and reports find it in any "
            "case of letters, so two names differ in more than case",
            "2.1",
            default="default",
            allowed="1 to 64 letters, digits and `- _ . # @ :`",
        ),
        Key(
            "queues",
            Kind.ITEMS,
            "needed: one queue called `root`, or queues that are put below an inserted root",
            "2.1",
        ),
        Key(
            "placementrules",
            Kind.ITEMS,
            "what finds the queue of an application, asked in order; none means `provided` alone",
            "3",
        ),
        Key(
            "limits",
            Kind.ITEMS,
            "limits of root",
            "2.1",
            allowed="equal to root's own `limits` if there are any",
        ),
        Key(
            "nodesortpolicy",
            Kind.MAPPING,
            "in which order nodes are tried",
            "7.5",
            inside=NODE_SORT,
            allowed="the `type` as a bare word is one too",
        ),
        Key("preemption", Kind.MAPPING, "what may be preempted", "9", inside=PREEMPTION),
        Key("usergroupresolver", Kind.MAPPING, "how groups are found", "2.1", inside=RESOLVER),
    )
)

DOCUMENT = Section(
    (
        Key("partitions", Kind.ITEMS, "needed: the partitions, at least one", "2.1"),
        Key(
            "checksum",
            Kind.TEXT,
            "left out when the checksum of the text is made, and not compared with it. Any other "
            "value counts as part of the text, with a warning",
            "2.1",
            allowed="64 hex digits",
        ),
    )
)
