"""Names of tools and of their arguments, which agents spell in different ways."""

from functools import lru_cache

MAIN_ARGUMENTS = (
    "command",
    "cmd",
    "pattern",
    "query",
    "file_path",
    "filePath",
    "path",
    "url",
    "description",
    "prompt",
    "name",
)
"""The first of these arguments that a call has is its most important one."""

_MAX_CACHED = 100
"""Characters of a name that is cached: a cache of longer ones could become large."""


def normal_name(name: str) -> str:
    """Return the letters and digits of a name in lower case: `readfile` for `read_file` and `ReadFile`."""
    return _cached_name(name) if len(name) <= _MAX_CACHED else _normalize(name)


def _normalize(name: str) -> str:
    return "".join(filter(str.isalnum, name)).lower()


_cached_name = lru_cache(maxsize=1024)(_normalize)
