"""`StoreClient` refuses the arguments that `AsyncAshClient` refuses."""

from collections.abc import Awaitable, Callable
from typing import Any
from uuid import uuid4

import pytest

from ash_server.store import Store
from ash_stores.in_process import StoreClient

MISSPELLED: Any = {"ofset": 1}
CALLS: dict[str, Callable[[StoreClient], Awaitable[Any]]] = {
    "sessions": lambda client: anext(client.sessions(**MISSPELLED)),
    "create_session": lambda client: client.create_session(**MISSPELLED),
    "list_messages": lambda client: client.list_messages(uuid4(), **MISSPELLED),
}


@pytest.mark.parametrize("name", CALLS)
async def test_unknown_arguments_are_errors(store: Store, name: str) -> None:
    with pytest.raises(TypeError, match=rf"{name}\(\) got an unexpected keyword argument 'ofset'"):
        await CALLS[name](StoreClient(store))
