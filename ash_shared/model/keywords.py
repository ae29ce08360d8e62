"""Keyword arguments declared by a `TypedDict` (`**filters: Unpack[SessionFilter]`)."""

from collections.abc import Mapping


def check_keywords(function: str, arguments: Mapping[str, object], declared: type) -> None:
    """Raise TypeError for an argument without a field in the `TypedDict`: Python itself accepts every name."""
    if unknown := arguments.keys() - declared.__annotations__.keys():
        raise TypeError(f"{function}() got an unexpected keyword argument {min(unknown)!r}")
