"""Static files, compressed for clients that accept gzip. Streams and the API's answers are never compressed."""

import gzip
from collections.abc import Mapping
from functools import lru_cache

from litestar import Response

from ash_server.api.http.headers import get_header
from ash_server.api.http.problems import AnyRequest

_MIN_BYTES = 1024
"""Smaller files fit into one packet."""
_MAX_FILES = 256


def static_file(
    request: AnyRequest, content: bytes, media_type: str, headers: Mapping[str, str]
) -> Response[bytes]:
    """Return a file of the viewer or the docs. Compresses it once; call it in a thread."""
    headers = {**headers, "Vary": "Accept-Encoding"}
    if len(content) >= _MIN_BYTES and _accepts_gzip(get_header(request.headers, "accept-encoding") or ""):
        content = _compress(content)
        headers["Content-Encoding"] = "gzip"
    return Response(content, media_type=media_type, headers=headers)


@lru_cache(maxsize=_MAX_FILES)
def _compress(content: bytes) -> bytes:
    return gzip.compress(content, mtime=0)


def _accepts_gzip(header: str) -> bool:
    """True if the header names gzip, or any encoding, with a weight above 0."""
    weights = dict(_read_coding(part) for part in header.lower().split(","))
    return weights.get("gzip", weights.get("*", 0.0)) > 0


def _read_coding(part: str) -> tuple[str, float]:
    """Return a coding and its weight: 1 by default, 0 if it is malformed."""
    name, _, parameter = part.partition(";")
    key, _, value = parameter.replace(" ", "").partition("=")
    try:
        return name.strip(), float(value) if key == "q" else float(not key)
    except ValueError:
        return name.strip(), 0.0
