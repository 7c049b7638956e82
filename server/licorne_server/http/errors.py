"""Errors as JSON, under the older core's keys and under those of its web page.

The two differ in case, so that an error has each key twice.
"""

from http import HTTPStatus

import structlog
from aiohttp import web
from aiohttp.typedefs import Handler

from licorne_core.values.errors import NotFound
from licorne_server.wire.caps import MAX_CONFIG_BYTES
from licorne_server.wire.errors import CallError

log = structlog.get_logger("core.http.errors")

MAX_BODY = MAX_CONFIG_BYTES
"""The longest request body that is read, in bytes: only configurations are sent here."""


def failure_json(status: int, message: str) -> dict[str, object]:
    """The body of an error, with each key in both spellings."""
    description = HTTPStatus(status).phrase
    return {
        "status_code": status,
        "message": message,
        "description": description,
        "StatusCode": status,
        "Message": message,
        "Description": description,
    }


def failure(status: int, message: str, headers: dict[str, str] | None = None) -> web.Response:
    """An error's answer."""
    return web.json_response(failure_json(status, message), status=status, headers=headers)


@web.middleware
async def errors_as_json(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Answer every error in one form. An unforeseen one is logged, and its text is not shown."""
    try:
        return await handler(request)
    except NotFound as error:
        return failure(404, str(error))
    except web.HTTPMethodNotAllowed as error:
        allowed = ", ".join(sorted(error.allowed_methods))
        message = f"method {request.method} is not allowed here, only {allowed}"
        return failure(405, message, {"Allow": allowed})
    except web.HTTPUnauthorized as error:
        return failure(401, _message(error), {"WWW-Authenticate": "Bearer"})
    except web.HTTPRequestEntityTooLarge:
        return failure(413, f"the request's body is longer than {MAX_BODY} bytes")
    except CallError as error:
        # The only one that gets here: too much of the caller waits already.
        return failure(429, str(error), {"Retry-After": "1"})
    except web.HTTPException as error:
        if error.status < 400:
            raise
        return failure(error.status, _message(error))
    except ConnectionError:
        return failure(400, "the connection was lost")
    except Exception:
        log.exception("request failed", method=request.method, path=request.path)
        return failure(500, "internal error, see the server's log")


def _message(error: web.HTTPException) -> str:
    if error.status == 404 and error.text == f"404: {error.reason}":
        return "there is no such path"
    return error.text or error.reason
