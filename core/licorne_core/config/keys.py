"""Keys of the document, of partitions, placement rules, queues and limits (spec §§ 2.1 to 2.6, 3).

The parser knows the keys of these tables and no others, so that no key is without a description.
`docs/reference.py` writes ``docs/configuration-reference.md`` from them, and from the tables of
properties (`properties.py`) and of the extra configuration (`extra.py`).
"""

from licorne_core.config.kinds import Key, Kind, section, words
from licorne_core.config.schema import NodeSortType
from licorne_core.features import modules
from licorne_core.values.rule_kinds import RULES

LIMIT = section(
    Key("limit", Kind.TEXT, "a description, which messages about the limit repeat", "2.6"),
    Key(
        "users",
        Kind.TEXTS,
        "users, each limited separately; `*` is every other user, also each separately",
        "2.6",
        allowed="names, or `*` alone; this or `groups` is needed",
    ),
    Key(
        "groups",
        Kind.TEXTS,
        "groups, the members of each limited together; `*` is everybody without a named group, together",
        "2.6",
        allowed="names, or `*` alone, which needs a named group in the same queue",
    ),
    Key(
        "maxresources",
        Kind.AMOUNTS,
        "the maximum usage in the queue and below; a zero forbids that resource",
        "2.6",
        allowed="one above zero, and none above the queue's own maximum",
    ),
    Key(
        "maxapplications",
        Kind.COUNT,
        "the maximum number of running applications in the queue and below; 0 is no limit",
        "2.6",
        default="0",
        allowed="not above the queue's own; this or `maxresources` is needed",
    ),
)

RESOURCES = section(
    Key(
        "guaranteed",
        Kind.AMOUNTS,
        "guaranteed amounts: siblings are ordered by their usage relative to them; preemption reclaims them",
        "4.9",
        allowed="those of children fit into their parent's, and into every maximum above",
    ),
    Key(
        "max",
        Kind.AMOUNTS,
        "the maximum usage of the queue and all below it; a resource that is not named is "
        "unlimited, and a zero forbids it",
        "4.7",
        allowed="not above the parent's",
    ),
)

TEMPLATE_RESOURCES = section(
    Key("guaranteed", Kind.AMOUNTS, "the guaranteed amounts of such a leaf", "4.1"),
    Key("max", Kind.AMOUNTS, "the maximum usage of such a leaf", "4.1"),
)

TEMPLATE = section(
    Key("resources", Kind.MAPPING, "the sizes of such a leaf", "4.1", inside=TEMPLATE_RESOURCES),
    Key(
        "maxapplications",
        Kind.COUNT,
        "the maximum number of running applications in such a leaf; 0 is unlimited",
        "4.1",
        default="0",
    ),
    Key("properties", Kind.NAMED_TEXTS, "all properties of such a leaf: it inherits none", "4.1"),
)

QUEUE = section(
    Key(
        "name",
        Kind.TEXT,
        "required; case does not matter, and siblings must differ",
        "2.5",
        allowed="1 to 64 letters, digits and `- _ # @ / :`",
    ),
    Key(
        "parent",
        Kind.FLAG,
        "true: the queue is a parent even without children; a queue with `queues` always is one",
        "2.1",
        default="false",
    ),
    Key("queues", Kind.ITEMS, "the queues below, with the same keys", "2.1"),
    Key(
        "resources", Kind.MAPPING, "the sizes of the queue", "2.5", inside=RESOURCES, allowed="root has none"
    ),
    Key(
        "maxapplications",
        Kind.COUNT,
        "the maximum number of running applications, beyond which others wait; 0 is unlimited",
        "4.12",
        default="0",
        allowed="not above the parent's; if the parent has a maximum, 0 is refused",
    ),
    Key("properties", Kind.NAMED_TEXTS, "the properties below; unknown ones are kept", "2.4"),
    Key(
        "submitacl",
        Kind.TEXT,
        "who may submit to the queue and all below it, in addition to those that a queue above allows",
        "2.3",
        allowed="an access list",
    ),
    Key(
        "adminacl",
        Kind.TEXT,
        "who may submit, too; the key grants no other right",
        "2.3",
        allowed="an access list",
        note="grants no right but to submit",
    ),
    Key(
        "childtemplate",
        Kind.MAPPING,
        "settings of the leaves that placement creates below this queue; without it the nearest "
        "template above applies",
        "4.1",
        inside=TEMPLATE,
    ),
    Key("limits", Kind.ITEMS, "limits for users and groups in the queue and below", "2.6"),
)


RESOLVERS = ("os", "ldap", "test")

FILTER = section(
    Key(
        "type",
        Kind.TEXT,
        "`allow`: the rule applies to those listed; `deny`: to all others. In any case of letters",
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
        "groups", Kind.TEXTS, "groups, read as in `users`", "3.9", allowed="names, or one regular expression"
    ),
)

RULE = section(
    Key("name", Kind.TEXT, "required: the kind, in any case of letters", "3", choices=tuple(RULES)),
    Key("value", Kind.TEXT, "a queue for `fixed`, the name of a tag for `tag`, which both require", "3"),
    Key("create", Kind.FLAG, "true: a queue that does not exist is created", "3", default="false"),
    Key(
        "parent",
        Kind.MAPPING,
        "the rule that chooses the queue above; without it the queue is directly below root",
        "3",
        allowed="a placement rule, or a list of one",
    ),
    Key("filter", Kind.MAPPING, "to whom the rule applies; without it, to everybody", "3.9", inside=FILTER),
)

NODE_SORT = section(
    Key(
        "type",
        Kind.TEXT,
        "`auto`: as `fair` while every ask finds a node, and as `binpacking` while one finds none and for "
        "ten seconds after; while a gang waits for one set of nodes, such as a rack, the fullest set first; "
        "`fair`: the emptiest node first; `binpacking`: the fullest first; `spread`: the "
        "emptiest group of nodes with one value of the attribute, and in it the emptiest node. "
        "The emptiness of a group is the mean over its nodes, drained ones too; nodes without the "
        "attribute are one more group. The cost of `spread` grows with the size of the groups: about "
        "0.2 ms a decision with 100 nodes in each, 4 ms with 1000",
        "7.5",
        default=NodeSortType.AUTO.value,
        choices=words(NodeSortType),
    ),
    Key(
        "attribute",
        Kind.TEXT,
        "the node attribute over whose values allocations are spread, such as `si/zone`",
        "7.5",
        allowed="needed for `spread`, refused for any other type",
    ),
    Key(
        "resourceweights",
        Kind.NAMED_NUMBERS,
        "the weight of each resource; if any is given, only the given ones count",
        "7.5",
        default="{vcore: 1, memory: 1}",
        allowed="each from 0 to 1e9",
    ),
)

SWITCHES: tuple[Key, ...] = tuple(
    key for _, module in modules("keys") for key in getattr(module, "SWITCHES", ())
)
"""Flags of features, in addition to `enabled`; off by default."""

PREEMPTION = section(
    Key("enabled", Kind.FLAG, "whether queues reclaim their guaranteed amounts", "2.1", default="true"),
    *SWITCHES,
)

RESOLVER = section(
    Key(
        "type",
        Kind.TEXT,
        "the directory in which groups of users are looked up; for now a user without groups is in one of "
        "the same name, whatever the value",
        "2.1",
        choices=RESOLVERS,
        works=False,
    )
)

PARTITION = section(
    Key(
        "name",
        Kind.TEXT,
        "empty, or `default` in any case of letters, means `default`. Requests and reports find a partition "
        "in any case of letters, so two names must differ in more than case",
        "2.1",
        default="default",
        allowed="1 to 64 letters, digits and `- _ . # @ :`",
    ),
    Key(
        "queues",
        Kind.ITEMS,
        "required: one queue called `root`, or queues that are put below an inserted root",
        "2.1",
    ),
    Key(
        "placementrules",
        Kind.ITEMS,
        "the rules that choose an application's queue, tried in order; without any only `provided` applies",
        "3",
    ),
    Key(
        "limits", Kind.ITEMS, "limits of root", "2.1", allowed="equal to root's own `limits` if there are any"
    ),
    Key(
        "nodesortpolicy",
        Kind.MAPPING,
        "the order in which nodes are tried",
        "7.5",
        inside=NODE_SORT,
        allowed="the `type` as a bare word is one too",
    ),
    Key("preemption", Kind.MAPPING, "the switches of preemption", "9", inside=PREEMPTION),
    Key(
        "usergroupresolver",
        Kind.MAPPING,
        "the lookup of groups",
        "2.1",
        inside=RESOLVER,
        note="does nothing: a user without groups is in one of the same name",
    ),
)

DOCUMENT = section(
    Key("partitions", Kind.ITEMS, "required: the partitions, at least one", "2.1"),
    Key(
        "checksum",
        Kind.TEXT,
        "excluded from the text when its checksum is computed, and not compared with the result. Any other "
        "value counts as part of the text, with a warning",
        "2.1",
        allowed="64 hex digits",
        note="is not compared with that of the text",
    ),
)
