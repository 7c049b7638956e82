"""Defects of what every peer passes: identity, shares, connections, and what is remembered."""

from mutants.defect import Defect

_ACCESS = "server/licorne_server/access.py"
_CONNECTIONS = "server/licorne_server/connections.py"
_HTTP_IDENTITY = "server/licorne_server/http/identity.py"
_LOCK = "server/licorne_server/bounded_lock.py"
_PLACES = "server/licorne_server/places.py"
_REMEMBERED = "server/licorne_server/remembered.py"
_COLLECTOR = "server/licorne_server/collector.py"
_SHARE = "server/licorne_server/share.py"
_STREAMS = "server/licorne_server/streams.py"
_TOKENS = "server/licorne_server/tokens.py"

DOORS = (
    Defect(
        "common-name-counts-too",
        _ACCESS,
        "return frozenset(names - {_OTHER_KINDS})",
        "return frozenset(names | {*map(_text, properties.get(_COMMON_NAME, ()))})",
        "a certificate with alternative names acts for the RM in its common name as well",
        ("tests/server/test_identity.py",),
    ),
    Defect(
        "operator-acts-for-rms",
        _ACCESS,
        "if self._enforced and not caller.names & self._allowed(rm_id):",
        "if self._enforced and not self.may_read(caller, rm_id):",
        "an operator acts for every RM",
        ("tests/server/test_tokens.py",),
    ),
    Defect(
        "reads-without-identity",
        _ACCESS,
        "return caller.operator or bool(caller.names & self._allowed(rm_id))",
        "return caller.operator or bool(caller.names)",
        "every RM sees all others",
        ("tests/server/test_tokens.py", "tests/server/test_identity.py"),
    ),
    Defect(
        "any-scheme",
        _TOKENS,
        "return found if scheme.lower() == SCHEME else None",
        "return found",
        "a token counts whatever the scheme before it",
        ("tests/server/test_tokens.py", "tests/server/http/test_http_identity.py"),
    ),
    Defect(
        "old-tokens-lost",
        _TOKENS,
        """        try:
            self._grants = self._read()
        except""",
        """        try:
            self._grants = {}
            self._grants = self._read()
        except""",
        "a file that cannot be read shuts everybody out",
        ("tests/server/test_tokens.py",),
    ),
    Defect(
        "revoked-streams-stay",
        _ACCESS,
        "            self._streams[context].needs(right, subject)",
        "            self._streams[context].needs(right, '')",
        "a stream outlives the right that it needs, while its token has others",
        ("tests/server/test_revoked_tokens.py",),
    ),
    Defect(
        "lost-rights-unnoticed",
        _TOKENS,
        "self.rms <= other.rms and self.operator <= other.operator",
        "self.rms <= other.rms",
        "a token that is no operator's any more keeps an operator's streams",
        ("tests/server/test_revoked_tokens.py",),
    ),
    Defect(
        "places-not-given-back",
        _PLACES,
        "            self._all -= 1\n",
        "",
        "a place that was taken once is taken for ever",
        ("tests/server/test_places.py",),
    ),
    Defect(
        "no-share-of-places",
        _PLACES,
        "if count >= self._share:",
        "if count >= self._total:",
        "one peer takes all places",
        ("tests/server/test_places.py", "tests/server/test_identity.py"),
    ),
    Defect(
        "network-of-addresses",
        "server/licorne_server/peers.py",
        "IPV6_PREFIX = 64",
        "IPV6_PREFIX = 128",
        "one host has a share for each of its IPv6 addresses",
        ("tests/server/test_places.py",),
    ),
    Defect(
        "silent-for-ever",
        _STREAMS,
        "async with asyncio.timeout(seconds):",
        "async with asyncio.timeout(None):",
        "a stream that says nothing stays open",
        ("tests/attacks/test_silence.py",),
    ),
    Defect(
        "resets-not-counted",
        "server/licorne_server/gate.py",
        "link.resets += 1",
        "link.resets += 0",
        "streams are opened and reset without an end",
        ("tests/server/test_connections.py",),
    ),
    Defect(
        "stranger-as-caller",
        _CONNECTIONS,
        "if link.calls else STRANGER_BYTES",
        "if link else STRANGER_BYTES",
        "a connection without a call may send as much as one with calls",
        ("tests/server/test_connections.py",),
    ),
    Defect(
        "answers-not-counted",
        _CONNECTIONS,
        "if answered > STRANGER_ANSWERS and not link.calls:",
        "if answered > STRANGER_ANSWERS and link.calls:",
        "floods that want answers are not cut, and callers are",
        ("tests/server/test_connections.py",),
    ),
    Defect(
        "probes-need-tokens",
        _HTTP_IDENTITY,
        "OPEN_TO_ALL = PROBES | paths.PUBLIC",
        "OPEN_TO_ALL = paths.PUBLIC",
        "a supervisor without a token takes the server for one that is not ready",
        ("tests/server/http/test_http_identity.py",),
    ),
    Defect(
        "rm-named-on-any-path",
        _HTTP_IDENTITY,
        'return request.path in OF_ONE_RM and visible(request.query.get("rm", ""))',
        'return visible(request.query.get("rm", ""))',
        "an RM that names itself sees what all have",
        ("tests/server/http/test_http_identity.py",),
    ),
    Defect(
        "two-tokens-at-once",
        _ACCESS,
        "if self._tokens is None or len(authorizations) != 1:",
        "if self._tokens is None or not authorizations:",
        "of two tokens the first counts, whatever a proxy looks at",
        ("tests/server/http/test_http_identity.py",),
    ),
    Defect(
        "no-certificate-over-http",
        _HTTP_IDENTITY,
        "if not shown:",
        "if shown is None:",
        "over HTTP somebody without a certificate is told that it has a bad one",
        ("tests/server/http/test_https.py",),
    ),
    Defect(
        "entries-are-names-over-http",
        _HTTP_IDENTITY,
        "if kind in ALTERNATIVE_NAMES and name",
        "if name",
        "a certificate with a directory entry ends in an internal error",
        ("tests/server/http/ui/test_looking_by_certificate.py",),
    ),
    Defect(
        "any-host-on-loopback",
        "server/licorne_server/http/hosts.py",
        "if not self._is_known(given):",
        "if not given:",
        "a page of another site whose name leads to this machine reads everything",
        ("tests/server/http/test_hosts.py",),
    ),
    Defect(
        "process-shown-to-all",
        _HTTP_IDENTITY,
        "return not request.path.startswith(OPERATORS_ONLY)",
        "return True",
        "over plain HTTP beside certificates everybody may profile the process",
        ("tests/server/http/test_https.py",),
    ),
    Defect(
        "old-authority-over-http",
        "server/licorne_server/tls.py",
        "self._context = self._made()\n            except",
        "self._made()\n            except",
        "HTTP keeps the first certificates for ever",
        ("tests/server/http/test_https.py",),
    ),
    Defect(
        "handshakes-without-end",
        "server/licorne_server/http/door.py",
        "return [*under_way, *server.connections]",
        "return [*server.connections]",
        "connections that never finish their handshake take all open files",
        ("tests/server/http/test_https.py",),
    ),
    Defect(
        "any-origin-reads",
        "server/licorne_server/http/cors.py",
        "(ANY in self._origins or origin in self._origins)",
        "bool(self._origins)",
        "where one origin is allowed all are",
        ("tests/server/http/test_cors.py",),
    ),
    Defect(
        "left-but-counted",
        _LOCK,
        """            await self._lock.acquire()
        finally:""",
        """            await self._lock.acquire()
        except ValueError:""",
        "those who have waited keep their place",
        ("tests/server/test_bounded_lock.py",),
    ),
    Defect(
        "pause-is-left-out",
        _SHARE,
        "self._debt += spent * PAUSE_FACTOR",
        "self._debt += spent",
        "readers have half of the loop's time while there is scheduling to do",
        ("tests/server/test_share.py",),
    ),
    Defect(
        "long-pass-beside-rms",
        _COLLECTOR,
        "self._gone() == self._last_gone or self.reckoned() > SHORT_SECONDS",
        "self._gone() == self._last_gone",
        "when books have gone the collector stops all RMs for as long as it takes",
        ("tests/server/test_collector.py",),
    ),
    Defect(
        "overrun-is-free",
        _SHARE,
        "always=whole or spent > OVERRUN * length",
        "always=whole",
        "a reader whose slices are far too long has all of the loop's time while the core rests",
        ("tests/server/test_share.py",),
    ),
    Defect(
        "turns-by-reader",
        _SHARE,
        "line = self._waiting.setdefault(party, deque())",
        'line = self._waiting.setdefault("", deque())',
        "a party with many readers keeps another waiting for all of them",
        ("tests/server/test_share.py",),
    ),
    Defect(
        "turn-of-one-who-left",
        _SHARE,
        """            if not turn.cancelled():
                self._next()
            elif""",
        "            if",
        "a reader that is cancelled as its turn comes keeps it, and all others wait for ever",
        ("tests/server/test_share.py",),
    ),
    Defect(
        "forgets-but-counts",
        _REMEMBERED,
        """            self.entries.clear()
            self.size = 0
""",
        """            self.entries.clear()
""",
        "a table that was full once is emptied for every entry",
        ("tests/server/test_remembered.py",),
    ),
    Defect(
        "large-is-remembered",
        _REMEMBERED,
        "if size > self._most // LARGEST:",
        "if size > self._most * LARGEST:",
        "one large entry pushes all others out",
        ("tests/server/test_remembered.py",),
    ),
)
