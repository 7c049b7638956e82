"""Defects of the page: what viewers are told, who sees what, and how much is looked at."""

from mutants.defect import Defect

_UI = "server/licorne_server/http/ui"
_BOARD_TESTS = ("tests/server/http/ui/test_board.py",)
_FEED_TESTS = ("tests/server/http/ui/test_feed.py",)
_LIST_TESTS = ("tests/server/http/ui/test_lists.py",)
_ACCESS_TESTS = ("tests/server/http/ui/test_who_may_look.py",)

PAGE = [
    Defect(
        "page-forgets-what-went",
        f"{_UI}/board.py",
        "whole = version == 0 or version < self._kept",
        "whole = version == 0",
        "a viewer that was slow keeps queues that are gone",
        _BOARD_TESTS,
    ),
    Defect(
        "page-shows-all-to-all",
        f"{_UI}/board.py",
        "(whole or entry.version > have) and (visible is None or visible(key.rm))",
        "(whole or entry.version > have)",
        "an RM sees the queues of others live",
        (*_BOARD_TESTS, *_ACCESS_TESTS),
    ),
    Defect(
        "page-tells-names-that-went",
        f"{_UI}/board.py",
        "if went > have and (visible is None or visible(key.rm))",
        "if went > have",
        "an RM hears the names of others' queues when these go",
        _BOARD_TESTS,
    ),
    Defect(
        "page-shares-filtered-texts",
        f"{_UI}/renderings.py",
        "key = (board, version, board.version, audience)",
        "key = (board, version, board.version)",
        "an RM gets what was written for an operator",
        _FEED_TESTS,
    ),
    Defect(
        "page-crowded-out",
        f"{_UI}/looking.py",
        "room // (len(wanted) - len(given))",
        "room",
        "an RM with very many queues leaves others none in the live page",
        _FEED_TESTS,
    ),
    Defect(
        "page-looks-on",
        f"{_UI}/feed.py",
        "            elif now != looked:\n",
        "            else:\n",
        "an idle server looks at its queues for ever",
        _FEED_TESTS,
    ),
    Defect(
        "page-passes-by-what-changed",
        f"{_UI}/looking.py",
        "before is not None and before[0] == signs and",
        "before is not None and",
        "queues stand still until the next whole look",
        _FEED_TESTS,
    ),
    Defect(
        "page-viewers-without-end",
        f"{_UI}/feed.py",
        "if self._viewers[party] >= MAX_VIEWERS_OF_PARTY:",
        "if self._viewers[party] > MAX_VIEWERS_OF_PARTY:",
        "one host may have more viewers than is said",
        _FEED_TESTS,
    ),
    Defect(
        "page-queue-by-prefix",
        f"{_UI}/lists.py",
        'app.queue.startswith(f"{queue}.")',
        "app.queue.startswith(queue)",
        "a queue shows the applications of another whose name begins alike",
        _LIST_TESTS,
    ),
    Defect(
        "page-search-shows-all",
        f"{_UI}/finding.py",
        "for name in views.partition_names() if visible(rm_of(name))",
        "for name in views.partition_names()",
        "a search tells an RM the names of others",
        _ACCESS_TESTS,
    ),
]
