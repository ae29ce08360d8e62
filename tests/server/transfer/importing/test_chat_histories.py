"""Sessions in the chat history of Aider."""

import os
from pathlib import Path
from shutil import copytree

import pytest

from ash_server.cli.import_.files import import_paths
from ash_server.cli.import_.options import ImportOptions
from ash_server.store import Store
from ash_server.transfer.importing.documents.chat_histories import NAME, is_chat_history
from ash_server.transfer.importing.transcript import open_transcript
from tests.server.transfer.importing.test_documents import exported, import_all
from tests.shared.providers.test_aider import RECORDED, recorded_chats

START = "\n# aider chat started at {}\n\n"
PROMPT, ANSWER, REPORT = "\n#### How many?  \n", "\nFour.\n\n", "> Tokens: 9 sent, 2 received.  \n"


def chat(time: str, *sections: str) -> str:
    return "".join([START.format(time), *sections])


async def test_each_chat_of_a_history_is_a_session(store: Store, tmp_path: Path) -> None:
    history = tmp_path / NAME
    history.write_text(RECORDED)

    imported = await import_all(store, tmp_path)
    again = await import_all(store, history)

    sessions = [await store.sessions.get(each.session_id) for each in imported]
    assert [(each.source, each.title, each.models) for each in sessions] == [
        ("aider", "Start the table at six", ["openai/mock-model"]),
        ("aider", "What is in the table?", ["openai/mock-model"]),
        ("aider", "What did we do?", ["openai/mock-model"]),
    ]
    assert [await exported(store, each.id) for each in sessions] == recorded_chats()
    assert [each.result.counts["new"] for each in again] == [0, 0, 0]


def test_stamps_change_when_the_last_section_counts_as_complete(tmp_path: Path) -> None:
    history = tmp_path / NAME
    history.write_text(chat("2026-03-02 09:00:00", PROMPT, "\nFo"))
    transcript = open_transcript(history / "2026-03-02_09-00-00")
    seen = [(transcript.stamps(), sum(1 for _ in transcript.lines()))]
    os.utime(history, (0, 0))
    seen.append((transcript.stamps(), sum(1 for _ in transcript.lines())))

    (written, sections), (rested, all_sections) = seen
    assert written != rested
    assert all_sections == sections + 1


async def test_a_copy_of_a_history_may_have_another_name(store: Store, tmp_path: Path) -> None:
    (tmp_path / "old-chats.md").write_text(RECORDED)
    (tmp_path / "notes.md").write_text("# Notes\n\n    # aider chat started at dawn\n")

    imported = await import_all(store, tmp_path)

    sessions = [await store.sessions.get(each.session_id) for each in imported]
    assert [(each.source, each.title) for each in sessions] == [
        ("aider", "Start the table at six"),
        ("aider", "What is in the table?"),
        ("aider", "What did we do?"),
    ]
    assert [await exported(store, each.id) for each in sessions] == recorded_chats()


@pytest.mark.parametrize("text", ["```\n{}```\n", "\n{}\n"], ids=["in code", "as a heading"])
def test_a_text_that_quotes_a_chat_is_no_history(tmp_path: Path, text: str) -> None:
    path = tmp_path / "README.md"
    path.write_text(
        "# Chats\n\n> They begin with\n\n" + text.format(chat("2026-03-02 09:00:00", PROMPT, ANSWER))
    )

    assert not is_chat_history(path)


def test_the_start_of_a_chat_is_found_anywhere(tmp_path: Path) -> None:
    path = tmp_path / "cut.md"
    for size in range(1024 * 1024 - 40, 1024 * 1024 + 10, 7):
        path.write_text(PROMPT + "x" * size + chat("2026-03-02 09:00:00", PROMPT))
        assert is_chat_history(path)


async def test_a_cut_copy_begins_with_a_session_of_its_own(store: Store, tmp_path: Path) -> None:
    cut, *chats = recorded_chats()
    rest = cut[cut.index("\n####") :]
    (tmp_path / "cut.md").write_text(rest + "".join(chats))

    imported = await import_all(store, tmp_path / "cut.md")

    assert [await exported(store, each.session_id) for each in imported] == [rest, *chats]


async def test_a_declared_history_needs_no_start_of_a_chat(store: Store, tmp_path: Path) -> None:
    path = tmp_path / "cut.md"
    path.write_text(PROMPT + ANSWER)
    report = await import_paths(store, [path], ImportOptions(source="aider"))
    [session_id] = report.session_ids

    assert report.total.counts == {"new": 2}
    assert (await store.sessions.get(session_id)).title == "How many?"
    assert await exported(store, session_id) == PROMPT + ANSWER


async def test_an_empty_history_contains_no_session(store: Store, tmp_path: Path) -> None:
    path = tmp_path / "empty.md"
    path.touch()

    report = await import_paths(store, [path], ImportOptions(source="aider"))

    assert [each.reason for each in report.unread] == ["contains no session"]


async def test_a_longer_history_adds_what_is_new(store: Store, tmp_path: Path) -> None:
    history = tmp_path / NAME
    history.write_text(chat("2026-03-02 09:00:00", PROMPT, ANSWER))
    [before] = await import_all(store, history)
    more = REPORT + PROMPT
    history.write_text(history.read_text() + more + chat("2026-03-02 10:00:00", PROMPT))

    first, second = await import_all(store, history)

    assert first.session_id == before.session_id != second.session_id
    assert [each.result.counts for each in (before, first, second)] == [
        {"new": 3},
        {"existing": 3, "new": 2},
        {"new": 2},
    ]
    assert await exported(store, first.session_id) == chat("2026-03-02 09:00:00", PROMPT, ANSWER) + more


async def test_a_section_that_is_being_written_is_left_for_later(store: Store, tmp_path: Path) -> None:
    history = tmp_path / NAME
    history.write_text(chat("2026-03-02 09:00:00", PROMPT, "\nFour"))
    [before] = await import_all(store, history)
    history.write_text(chat("2026-03-02 09:00:00", PROMPT, "\nFour.\n\n"))
    [after] = await import_all(store, history)
    history.write_text(chat("2026-03-02 09:00:00", PROMPT, "\nFour.\n\n", "\n#### And"))
    os.utime(history, (1, 1))
    [long_after] = await import_all(store, history)

    counts = [each.result.counts["new"] for each in (before, after, long_after)]
    assert counts == [2, 1, 1]
    assert await exported(store, after.session_id) == history.read_text()


async def test_a_moved_history_has_the_same_sessions(store: Store, tmp_path: Path) -> None:
    first, second = tmp_path / "first" / NAME, tmp_path / "second" / NAME
    first.parent.mkdir()
    first.write_text(RECORDED)
    before = await import_all(store, first)
    copytree(first.parent, second.parent)

    after = await import_all(store, second)

    assert [each.session_id for each in after] == [each.session_id for each in before]


async def test_a_cut_history_begins_with_a_session_of_its_own(store: Store, tmp_path: Path) -> None:
    """Chats without any text are left out."""
    history = tmp_path / NAME
    rest = "of an answer.\n\n> Applied edit to a.py  \n"
    history.write_text(rest + chat("2026-03-02 09:00:00") + chat("2026-03-02 10:00:00", PROMPT))

    imported = await import_all(store, history)

    assert [await exported(store, each.session_id) for each in imported] == [
        rest,
        chat("2026-03-02 10:00:00", PROMPT),
    ]
