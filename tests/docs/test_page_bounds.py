"""The bounds on the page about the page are those in force."""

import re

from licorne_server.http.ui import feed, looking, page, pages
from support.docs.pages import Page


def test_bounds_of_the_page_are_those_in_force() -> None:
    """Each with its number, in the order of the table."""
    rows = Page("docs/ui.md").table("How live it is")
    shown = [[int(text.replace(",", "")) for text in re.findall(r"[\d,]+", row[1])] for row in rows]
    assert shown == [
        [feed.MAX_VIEWERS, feed.MAX_VIEWERS_OF_PEER],
        [looking.MAX_QUEUES],
        [pages.MAX_PAGE],
        [page.HITS],
    ]
