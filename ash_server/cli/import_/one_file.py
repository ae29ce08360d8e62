"""Import a file with the options of the command."""

import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import NamedTuple

from ash_server.cli.common.error_messages import error_message
from ash_server.cli.import_.options import ImportOptions
from ash_server.store import Store
from ash_server.transfer.importing.file_import import ImportedFile, import_file
from ash_server.transfer.importing.parents import find_parent
from ash_server.transfer.importing.transcript_files import Home, declared_at, external_id
from ash_server.transfer.titles import name_of


class UnreadFile(NamedTuple):
    """A path that could not be imported."""

    path: str
    reason: str

    @classmethod
    def from_error(cls, error: OSError) -> "UnreadFile":
        return cls(str(error.filename), error.strerror or str(error))


async def import_one_file(
    store: Store, path: Path, homes: Iterable[Home], options: ImportOptions, advance: Callable[[int], None]
) -> ImportedFile | UnreadFile:
    """Import a file and link its session to the parent; an error affects no other file."""
    name = options.name or external_id(path, homes)
    declared = declared_at(path, homes, options.source)
    try:
        imported = await import_file(
            store,
            path,
            name,
            source=declared.source,
            replace=options.replace,
            identify=options.name is None,
            access=options.access,
            advance=advance,
        )
        if (agent := declared.agent_with(imported.head.agent)) is not None:
            for each in imported.sessions():
                await store.sessions.set_agent(each.session_id, agent)
        if imported.has_session and (title := name_of(path, options.access)):
            await store.sessions.set_tool_title(imported.session_id, title.text, is_typed=title.is_typed)
        if imported.has_session and (parent := find_parent(path, imported.head, homes, store.tenant)):
            await store.sessions.set_parent(imported.session_id, *parent)
    except OSError as error:
        return UnreadFile.from_error(error)
    except Exception as error:
        if os.environ.get("ASH_DEBUG"):
            raise
        return UnreadFile(str(path), error_message(error))
    return imported
