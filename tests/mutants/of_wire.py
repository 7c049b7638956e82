"""Defects of the server between bytes and commands."""

from mutants.defect import Defect

_IN = "server/licorne_server/convert_in.py"
_ASKS = "server/licorne_server/convert_asks.py"
_OUT = "server/licorne_server/convert_out.py"
_WIRE = "server/licorne_server/wire.py"
_CAPS = "server/licorne_server/caps.py"

WIRE = (
    Defect(
        "nodes-lost-at-the-door",
        _IN,
        "[UpdateNodes(rm_id=rm_id, nodes=run) for run in slices(nodes, portion)], len(refused)",
        "[UpdateNodes(rm_id=rm_id, nodes=run) for run in slices(nodes, portion)], 0",
        "a node that is refused at the door makes every replay incomplete",
        ("tests/server/test_session.py",),
    ),
    Defect(
        "comes-undrained",
        _IN,
        "si.NodeInfo.CREATE_DRAIN: NodeAction.CREATE_DRAIN",
        "si.NodeInfo.CREATE_DRAIN: NodeAction.CREATE",
        "a node that comes drained takes allocations",
        ("tests/server/rows/test_nodes.py", "tests/client/test_recovery.py"),
    ),
    Defect(
        "refused-release-turned-round",
        _IN,
        "key, app_id = texts_of(raw, {6: MAX_ID, 2: MAX_ANNOTATION})",
        "app_id, key = texts_of(raw, {6: MAX_ID, 2: MAX_ANNOTATION})",
        "the answer to a bad release has key and application exchanged",
        ("tests/server/test_bad_input.py", "tests/server/test_si_corners.py"),
    ),
    Defect(
        "invisible-key",
        _ASKS,
        "if not key or not key.isprintable():",
        "if not key:",
        "the second ask of a kind may have control characters in its key",
        ("tests/server/test_convert_corners.py",),
    ),
    Defect(
        "key-twice",
        _ASKS,
        'if not rest.startswith(b"\\x0a"):',
        'if rest != b"\\x0a":',
        "an ask whose key stands twice is remembered under what follows the first",
        ("tests/server/test_convert_corners.py",),
    ),
    Defect(
        "own-class-shared",
        _ASKS,
        'predicate = f"ask\\n{ask.app_id}\\n{ask.key}"',
        'predicate = f"ask\\n{ask.app_id}"',
        "asks without a tag share what the RM said of one of them",
        ("tests/server/test_convert_callbacks.py",),
    ),
    Defect(
        "digits-of-others",
        _ASKS,
        "if not text.isdecimal() or not text.isascii() or len(text) > 12:",
        "if not text.isdecimal() or len(text) > 12:",
        "creation times in digits of other scripts are read",
        ("tests/server/test_convert_corners.py",),
    ),
    Defect(
        "long-key",
        _OUT,
        'head = b"\\n" + encode_varint(size + 1 + len(head)) + b"\\n" + head',
        'head = b"\\n" + encode_varint(size + len(head)) + b"\\n" + head',
        "allocations with a long key are no protobuf",
        ("tests/server/test_convert_corners.py",),
    ),
    Defect(
        "piece-of-another-priority",
        _OUT,
        "key = (ask.ask_class.shape, ask.priority)",
        "key = (ask.ask_class.shape, 0)",
        "allocations of one class all get the priority of the first",
        ("tests/server/test_convert.py",),
    ),
    Defect(
        "length-of-two-bytes",
        _WIRE,
        "length += (raw[value] - 1) << 7",
        "length += raw[value] << 7",
        "items of 128 bytes and more are cut wrongly",
        ("tests/server/test_wire.py",),
    ),
    Defect(
        "number-without-end",
        _WIRE,
        "if shift > 63:",
        "if shift > 700:",
        "numbers may have any length",
        ("tests/server/test_wire.py",),
    ),
    Defect(
        "items-uncounted",
        _WIRE,
        "        self.count(len(items) - before)\n",
        "        self.count(0)\n",
        "the items of a message are counted in one run only",
        ("tests/server/test_wire.py", "tests/server/test_bad_input.py"),
    ),
    Defect(
        "keys-uncounted",
        _CAPS,
        "bytes_of(extra) + bytes_of(extra.values())",
        "bytes_of(extra.values())",
        "the keys of the extra configuration do not count against its cap",
        ("tests/server/test_caps.py",),
    ),
    Defect(
        "entries-uncounted",
        "server/licorne_server/items.py",
        "count += skim(raw[value:end], (), MAX_ENTRIES)[0]",
        "count += 1",
        "an item may have any number of amounts",
        ("tests/server/test_bad_input.py",),
    ),
    Defect(
        "uncounted-for-its-tags",
        "server/licorne_server/convert_asks.py",
        "if ask.node_id is None:",
        "if True:",
        "an allocation whose tags are too large is not counted",
        ("tests/server/test_kubernetes_sizes.py",),
    ),
    Defect(
        "one-bracket",
        _CAPS,
        """if not problem and ("[" in value or "]" in value):""",
        """if not problem and "[" in value:""",
        "an rmID may hold a closing bracket",
        ("tests/server/test_caps.py",),
    ),
    Defect(
        "names-as-they-came",
        "core/licorne_core/views/lookup.py",
        'raise NotFound(f"partition {shown(name)} not found")',
        'raise NotFound(f"partition {name} not found")',
        "an error repeats control characters",
        ("tests/properties/test_fuzz.py::test_the_corpus_is_answered_as_it_stands_there",),
    ),
)
