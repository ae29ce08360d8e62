"""`ash blame`: find the sessions that wrote the lines of a file or of a commit."""

import json
import re
from collections.abc import AsyncGenerator, Iterable, Sequence
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple
from uuid import UUID

import rich_click as click
from rich.text import Text

from ash_client import ApiError
from ash_server.cli.blame.git import GitCommit, read_commit
from ash_server.cli.common.client import short_id
from ash_server.cli.common.options import json_option
from ash_server.cli.common.output.terminal import local_time, stdout_console, visible, visible_json, warn
from ash_server.cli.common.read_store import ReadStore, StoreToRead, reads_store
from ash_server.errors import SessionNotFound, SessionTooLarge
from ash_shared.model.reports.changes import SessionChanges
from ash_shared.parsing.changes.line_diff import lines_of
from ash_shared.projections.changes.authorship import (
    Author,
    Writer,
    blame_lines,
    count_distinctive_lines,
    writer_of_commit,
    written_lines,
)

MAX_SESSIONS = 200
"""Sessions that changed or mention a file with the same name, the most recent first."""
MAX_FILES = 50
"""Files of a commit."""
MAX_FILE_BYTES = 8 * 1024 * 1024
_PAGE = 100
_PLACE = re.compile(r"(?P<path>.+):(?P<line>[1-9]\d{0,8})")


class _Target(NamedTuple):
    path: Path
    line: int | None


@click.command("blame")
@click.argument("place", metavar="[PATH[:LINE]]", required=False)
@click.option(
    "--commit", "revision", metavar="REV", help="Find the sessions that wrote lines of this commit."
)
@json_option
@reads_store
def command(place: str | None, *, store: StoreToRead, revision: str | None, as_json: bool) -> None:
    """Find the sessions that wrote the lines of a file or of a commit.

    Prints the session and turn of each line of a file, compared by content; for a single line, all edits that wrote it,
    newest first, with their prompts. With --commit, lists the sessions that wrote lines of the commit before it; git
    runs without hooks, external programs and network access.

    \b
    ash blame src/heron.py
    ash blame src/heron.py:17
    ash blame --commit HEAD
    """
    if (place is None) == (revision is None):
        raise click.UsageError("Either a PATH or --commit REV is required.")
    if revision is not None:
        commit = read_commit(revision)
        writers = store.read(partial(_read_writers, commit=commit))
        (_print_json if as_json else partial(_print_writers, commit))(writers)
        return
    target = _target(place or "")
    text = _read_file(target.path)
    authors = store.read(partial(_read_authors, path=str(target.path), text=text))
    _print_blame(lines_of(text), authors, target.line, as_json=as_json)


def _target(place: str) -> _Target:
    match = _PLACE.fullmatch(place)
    if match is None or Path(place).is_file():
        return _Target(Path(place).absolute(), None)
    return _Target(Path(match["path"]).absolute(), int(match["line"]))


def _read_file(path: Path) -> str:
    try:
        with path.open("rb") as file:
            content = file.read(MAX_FILE_BYTES + 1)
    except OSError as error:
        raise click.UsageError(f"{path}: {error.strerror}") from None
    if len(content) > MAX_FILE_BYTES:
        raise click.UsageError(f"{path} is larger than 8 MiB.")
    return content.decode(errors="replace")


async def _read_authors(store: ReadStore, path: str, text: str) -> list[list[Author]]:
    changes = [each async for each in _changes_of(store, [path], path=Path(path).name)]
    return blame_lines(text, (line for each in changes for line in written_lines(each, path)))


async def _read_writers(store: ReadStore, commit: GitCommit) -> list[Writer]:
    paths = [change.path for change in commit.changes][:MAX_FILES]
    if len(commit.changes) > MAX_FILES:
        warn(f"only the first {MAX_FILES} files of the commit are compared")
    found = [
        writer_of_commit(commit.changes, commit.at, changes, commit.root.name)
        async for changes in _changes_of(store, paths, path=None)
    ]
    return sorted((each for each in found if each is not None), key=lambda each: -each.lines)


async def _changes_of(
    store: ReadStore, paths: Iterable[str], *, path: str | None
) -> AsyncGenerator[SessionChanges, None]:
    """Yield the changes of the sessions that changed or mention a file with one of these names."""
    seen: set[UUID] = set()
    for name in dict.fromkeys(Path(each).name for each in paths):
        async for session in _sessions_with(store, name):
            if session in seen:
                continue
            if len(seen) == MAX_SESSIONS:
                warn(f"only {MAX_SESSIONS} sessions that changed or mention such files are compared")
                return
            seen.add(session)
            changes = await _changes(store, session, path)
            if changes is not None:
                yield changes


async def _sessions_with(store: ReadStore, name: str) -> AsyncGenerator[UUID, None]:
    """Yield the sessions that changed a file with this name, then those that mention the name.

    Sessions of an earlier version, and calls whose ids a record repeats, are only found by the second.
    """
    after = None
    while True:
        page = await store.list_sessions(edited=name, archived="include", limit=_PAGE, after=after)
        for session in page.sessions:
            yield session.id
        after = page.next_after
        if after is None:
            break
    if not any(map(str.isalnum, name)):
        return
    words = name.replace('"', " ")
    query: dict[str, Any] = {"place": "everything", "per_session": 1, "limit": _PAGE}
    while True:
        found = await store.search(f'"{words}"', **query)
        for result in found.results:
            yield result.session_id
        if found.next_after is None:
            return
        query["after"] = found.next_after


async def _changes(store: ReadStore, session: UUID, path: str | None) -> SessionChanges | None:
    try:
        return await store.get_changes(session, path=path)
    except (SessionNotFound, SessionTooLarge):
        return None
    except ApiError as error:
        if error.code in (SessionNotFound.code, SessionTooLarge.code):
            return None
        raise


def _print_blame(
    lines: Sequence[str], authors: Sequence[Sequence[Author]], line: int | None, *, as_json: bool
) -> None:
    if line is not None and line > len(lines):
        raise click.UsageError(f"The file has only {len(lines)} lines.")
    chosen = range(len(lines)) if line is None else [line - 1]
    if as_json:
        found = [
            {"line": index + 1, "text": lines[index], "edits": list(map(_author_json, authors[index]))}
            for index in chosen
        ]
        click.echo(visible_json(json.dumps({"lines": found})))
    elif line is None:
        _print_lines(lines, authors)
    else:
        _print_authors(authors[line - 1])


def _author_json(author: Author) -> dict[str, Any]:
    edit = json.loads(author.edit.model_dump_json(exclude={"diff"}))
    prompt = {} if author.prompt is None else {"prompt": author.prompt}
    return {"sessionId": author.session_id, **prompt, "path": author.path, **edit}


def _print_lines(lines: Sequence[str], authors: Sequence[Sequence[Author]]) -> None:
    console, width = stdout_console(), len(str(len(lines)))
    newest = [found[0] if found else None for found in authors]
    for author, group in groupby(range(len(lines)), key=newest.__getitem__):
        for number, index in enumerate(group):
            name = _name(author) if author is not None and number == 0 else ""
            console.print(
                Text.assemble(
                    (f"{name:<38}", "cyan"), (f"{index + 1:>{width}}  ", "dim"), visible(lines[index])
                ),
                soft_wrap=True,
            )


def _name(author: Author) -> str:
    return f"{short_id(UUID(author.session_id))[:13]} turn {author.turn:<3} {local_time(author.edit.at)}"


def _print_authors(authors: Sequence[Author]) -> None:
    console = stdout_console()
    if not authors:
        console.print("no session wrote this line")
    for author in authors:
        prompt = "" if author.prompt is None else visible(author.prompt)
        console.print(
            Text.assemble((_name(author), "cyan"), f"  {visible(author.edit.tool)}  {prompt}"), soft_wrap=True
        )


def _print_writers(commit: GitCommit, writers: Sequence[Writer]) -> None:
    console, total = stdout_console(), count_distinctive_lines(commit.changes)
    if not writers:
        console.print("no session wrote lines of this commit")
    for writer in writers:
        newest = writer.authors[0]
        prompt = "" if newest.prompt is None else visible(newest.prompt)
        lines = f"  {writer.lines:,} of {total:,} lines  "
        console.print(Text.assemble((_name(newest), "cyan"), lines, prompt), soft_wrap=True)


def _print_json(writers: Sequence[Writer]) -> None:
    found = [
        {"sessionId": each.session_id, "lines": each.lines, "edits": list(map(_author_json, each.authors))}
        for each in writers
    ]
    click.echo(visible_json(json.dumps({"sessions": found})))
