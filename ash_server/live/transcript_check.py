"""Background task that finds transcripts in the home of the user that agents delete before they are stored."""

import asyncio
import logging
from collections.abc import Sequence

import psycopg

from ash_server.errors import DatabaseUnavailable, SchemaMismatch
from ash_server.store import Store
from ash_server.tasks import BackgroundTask
from ash_server.transfer.discovered import Discovered, compare_with_store, find_discovered
from ash_shared.model.reports.unstored import UnstoredOfAgent

_SCAN_SECONDS, _COMPARE_SECONDS = 600.0, 60.0
"""The files are read rarely. While some are not stored, they are compared with the store more often."""

_log = logging.getLogger(__name__)


class TranscriptCheck(BackgroundTask):
    def __init__(self, store: Store) -> None:
        self._store = store
        self.agents: list[UnstoredOfAgent] = []
        """The result of the last check."""

    async def _run(self) -> None:
        discovered, rest = list[Discovered](), 0.0
        while True:
            try:
                if rest <= 0:
                    discovered, rest = await scan_home(), _SCAN_SECONDS
                self.agents = await list_unstored(self._store, discovered)
            except (DatabaseUnavailable, SchemaMismatch, psycopg.Error, OSError) as error:
                _log.warning("cannot check the transcripts on this machine: %s", type(error).__name__)
            pause = _COMPARE_SECONDS if self.agents else _SCAN_SECONDS
            await asyncio.sleep(pause)
            rest -= pause


async def scan_home() -> list[Discovered]:
    """Return the agents of this user that delete transcripts. Raises OSError."""
    return await asyncio.to_thread(find_discovered, only_expiring=True)


async def list_unstored(store: Store, discovered: Sequence[Discovered]) -> list[UnstoredOfAgent]:
    """Return the agents with transcripts or prompts that are not stored."""
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
