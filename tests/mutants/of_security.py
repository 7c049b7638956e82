"""Security: who may act, who may see, and what is written about it."""

from mutants.defect import Defect
from mutants.operators import never, returns, swap, without

SECURITY = (
    Defect(
        "common-name-counts-too",
        "access:_names",
        returns("frozenset(names | {*map(_text, properties.get(_COMMON_NAME, ()))})"),
        "a certificate with alternative names acts for the RM in its common name as well",
        ("test_identity",),
        nth=1,
    ),
    Defect(
        "operator-acts-for-rms",
        "Roles.acting",
        never("_is_of"),
        "an operator acts for every RM",
        ("test_tokens",),
    ),
    Defect(
        "viewer-configures-rms",
        "Roles.changing",
        never("viewer"),
        "a viewer changes the configuration of every RM",
        ("test_viewers",),
    ),
    Defect(
        "reads-without-identity",
        "Roles.may_read",
        returns("True"),
        "every RM sees all others",
        (
            "test_tokens",
            "test_identity",
        ),
    ),
    Defect(
        "two-tokens-at-once",
        "Access.bearer",
        swap("!=", "<"),
        "of two tokens the first counts, whatever a proxy looks at",
        ("test_http_identity",),
    ),
    Defect(
        "revoked-streams-stay",
        "Access._check",
        swap("subject", "''"),
        "a stream outlives the right that it needs, while its token has others",
        ("test_revoked_tokens",),
        nth=3,
    ),
    Defect(
        "rm-named-on-any-path",
        "Identity._may_see",
        without("path"),
        "an RM that names itself sees what all have",
        ("test_http_identity",),
    ),
    Defect(
        "any-secret-is-a-members",
        "Members.trusted",
        never("compare_digest"),
        "whoever sends a secret is taken for a member, and names its own rights",
        ("test_member_rights",),
    ),
    Defect(
        "requests-go-round",
        "Identity.checked",
        without("BY_MEMBER"),
        "two members that believe each other to be the owner pass a request back and forth",
        ("test_member_rights",),
    ),
    Defect(
        "any-host-on-loopback",
        "Hosts.known",
        never("_is_known"),
        "a page of another site whose name leads to this machine reads everything",
        ("test_http_identity",),
    ),
    Defect(
        "any-origin-reads",
        "Cors._allows",
        returns("origin is not None and bool(self._origins)"),
        "where one origin is allowed all are",
        ("test_http_identity",),
    ),
    Defect(
        "page-shares-filtered-texts",
        "Renderings.since",
        without("audience"),
        "an RM gets what was written for an operator",
        ("test_feed",),
        nth=1,
    ),
    Defect(
        "one-bracket",
        "rm_id_problem",
        without("]"),
        "an rmID may hold a closing bracket",
        ("wire/test_caps",),
    ),
    Defect(
        "values-in-tracebacks",
        "_render_exceptions",
        swap("False", "True"),
        "what RMs sent is logged with every traceback",
        ("test_lines",),
    ),
    Defect(
        "token-for-another-server",
        "settle",
        swap("at ( args . target )", "values"),
        "the token of the context in use goes to any server that is named",
        ("test_context",),
    ),
)
