"""Paths of the page, for authorization. It imports nothing of ours."""

from importlib.resources import files

API = "/ui/api"

CONTENT_TYPES = {
    ".css": "text/css; charset=utf-8",
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}
"""The kinds of files that the page is made of."""

INDEX = "index.html"
FOLDER = files("licorne_server.http.ui") / "static"

STATIC = {
    f"/ui/static/{file.name}": file
    for file in sorted(FOLDER.iterdir(), key=lambda file: file.name)
    if file.name.endswith(tuple(CONTENT_TYPES))
}
"""The page's files by path: fixed when the server starts, so that no path leads anywhere else."""

PUBLIC = frozenset({"/", "/ui", "/ui/", *STATIC})
"""Paths without data of any RM: they need no token."""

FILTERED = frozenset({f"{API}/feed", f"{API}/search"})
"""Paths that show each caller the data it may see, and nothing else."""

OF_ONE_RM = frozenset({f"{API}/config", f"{API}/events"})
"""Paths that show only the RM that `rm` names."""
