"""Background task that finds transcripts in the home of the user that agents delete before they are stored."""

import asyncio
import logging

import psycopg

from ash_server.errors import DatabaseUnavailable, SchemaMismatch
from ash_server.store import Store
from ash_server.tasks import BackgroundTask
from ash_server.transfer.discovered import Discovered, compare_with_store, find_discovered
from ash_shared.model.reports.unstored import UnstoredOfAgent

_INTERVAL_SECONDS = 600.0

_log = logging.getLogger(__name__)


class TranscriptCheck(BackgroundTask):
    def __init__(self, store: Store) -> None:
        self._store = store
        self.agents: list[UnstoredOfAgent] = []
        """The result of the last check."""

    async def _run(self) -> None:
        while True:
            try:
                self.agents = await find_unstored(self._store)
            except (DatabaseUnavailable, SchemaMismatch, psycopg.Error, OSError) as error:
                _log.warning("cannot check the transcripts on this machine: %s", type(error).__name__)
            await asyncio.sleep(_INTERVAL_SECONDS)


async def find_unstored(store: Store) -> list[UnstoredOfAgent]:
    """Return the agents with transcripts or prompts that are not stored. Raises OSError and the errors of the store."""
    discovered = await asyncio.to_thread(find_discovered, only_expiring=True)
    await compare_with_store(store, discovered)
    return [_to_model(each) for each in discovered if each.expiring or each.new_prompts]


def _to_model(discovered: Discovered) -> UnstoredOfAgent:
    agent, retention = discovered.home.agent, discovered.retention
    return UnstoredOfAgent(
        agent=agent.id,
        name=agent.name,
        expiring=discovered.expiring,
        kept_days=None if retention is None else retention.age.days,
        lost=discovered.lost,
        new_prompts=discovered.new_prompts,
    )
