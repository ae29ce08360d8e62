"""ETags, and 304 for clients that have the current response.

The tag of a response follows from the rows that it shows, without their texts: it changes with everything that changes
the response, and costs no reading of texts. Browsers with a cookie store nothing, since others may use the machine.
"""

from collections.abc import Iterable, Mapping
from functools import cache
from hashlib import blake2b
from importlib.metadata import version
from typing import Any

import msgspec
from litestar import Response
from litestar.types import Scope

from ash_server.api.http.guards.access import client_of
from ash_server.api.http.headers import get_header
from ash_server.api.http.problems import AnyRequest
from ash_server.api.http.redaction import is_redacted
from ash_server.store.message_pages import MessageBlocks, StoredMessage
from ash_shared.parsing.parse import PARSER_VERSION

_encode = msgspec.msgpack.Encoder().encode


def tag_of_messages(
    scope: Scope,
    rows: Iterable[StoredMessage | MessageBlocks],
    accept: str,
    cursors: Mapping[str, int] | None = None,
) -> str:
    """Return the tag of messages.

    A text never changes. A deleted message leaves the page, `ash reindex` may change role and kind, and the messages of
    a session that was deleted and stored again have other times of storing.
    """
    facts = [(row.sequence, row.role, row.kind, row.source, row.created_at) for row in rows]
    query = scope["query_string"].decode("latin-1")
    request = (scope["path"], query, accept, is_redacted(scope), PARSER_VERSION, _version())
    return f'W/"{blake2b(_encode((request, facts, cursors or {})), digest_size=16).hexdigest()}"'


def cache_headers(scope: Scope, tag: str) -> dict[str, str]:
    """Return the headers of a response with messages: a cache asks each time whether its copy is current."""
    policy = "no-store, private" if client_of(scope).is_browser else "no-cache, private"
    return {"ETag": tag, "Cache-Control": policy, "Vary": "Accept, Authorization, Cookie"}


def has_current(request: AnyRequest, tag: str) -> bool:
    """True if the client has the response with this tag."""
    sent = get_header(request.headers, "if-none-match")
    return sent is not None and (sent.strip() == "*" or tag in map(str.strip, sent.split(",")))


def not_modified(headers: Mapping[str, str], media_type: str) -> Response[Any]:
    return Response(b"", status_code=304, media_type=media_type, headers=headers)


@cache  # read from files
def _version() -> str:
    return version("ash-messages")
