"""One of several servers on a database indexes at a time."""

from psycopg import AsyncConnection

from ash_server.live.search_indexer import SearchIndexer
from ash_server.store import Store
from ash_server.store.search.index import indexer_lock


async def test_indexes_only_while_no_other_server_does(store: Store, connection: AsyncConnection) -> None:
    session = await store.sessions.create(source="claude")
    await store.messages.append(session.id, ["some words"])
    indexer = SearchIndexer(store)

    async with indexer_lock(connection) as is_held:
        await indexer.catch_up()
        pending = await store.search.count_pending()
        async with store.search.indexer_lock() as is_held_twice:
            assert (is_held, is_held_twice) == (True, False)
    await indexer.catch_up()

    assert pending > 0
    assert await store.search.count_pending() == 0
