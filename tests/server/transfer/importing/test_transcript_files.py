"""Selection of transcript files, and the external ids of their sessions."""

import os
from pathlib import Path

import pytest

import ash_server
from ash_server.file_access import real_path
from ash_server.transfer.agents import AGENTS
from ash_server.transfer.importing.transcript import open_transcript, places_of
from ash_server.transfer.importing.transcript_files import (
    Home,
    KnownFolders,
    declared_at,
    external_id,
    find_files,
    find_homes,
    find_transcripts,
)
from tests.server.transcripts import write
from tests.shared.sample_files import RECORDINGS

VIEWER = Path(ash_server.__file__).parent / "viewer"


@pytest.fixture
def user_home(tmp_path: Path) -> Path:
    """A home folder with transcripts of several CLIs, and other files."""
    for name in (
        ".claude/projects/-work-a/1.jsonl",
        ".claude/projects/-work-a/agent-2.jsonl",
        ".claude/.credentials.json",
        ".claude/settings.json",
        ".claude/todos/3.json",
        ".codex/sessions/2026/01/02/rollout-4.jsonl",
        ".codex/auth.json",
        ".local/share/opencode/storage/message/5.json",
        "moved/projects/-work-a/6.jsonl",
        "logs/b.jsonl",
        "logs/a/z.json",
        "logs/a/y.jsonl",
        "logs/.hidden/x.jsonl",
        "logs/.hidden.jsonl",
        "logs/notes.txt",
    ):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    return tmp_path


FILES = {
    "logs": ["logs/a/y.jsonl", "logs/a/z.json", "logs/b.jsonl"],
    "logs/b.jsonl": ["logs/b.jsonl"],
    "logs/notes.txt": ["logs/notes.txt"],
    "logs/.hidden": ["logs/.hidden/x.jsonl"],
    ".claude": [".claude/projects/-work-a/1.jsonl", ".claude/projects/-work-a/agent-2.jsonl"],
    ".claude/projects": [".claude/projects/-work-a/1.jsonl", ".claude/projects/-work-a/agent-2.jsonl"],
    ".claude/todos": [".claude/todos/3.json"],
    ".codex": [".codex/sessions/2026/01/02/rollout-4.jsonl"],
    "absent": ["absent"],
}

NAMES = {
    ".claude/projects/-work-a/1.jsonl": "projects/-work-a/1.jsonl",
    ".codex/sessions/2026/01/02/rollout-4.jsonl": "sessions/2026/01/02/rollout-4.jsonl",
    ".local/share/opencode/storage/message/5.json": "storage/message/5.json",
    "logs/b.jsonl": "{home}/logs/b.jsonl",
    "logs/../logs/b.jsonl": "{home}/logs/b.jsonl",
}


def files_of(user_home: Path, name: str) -> tuple[list[str], list[OSError]]:
    problems: list[OSError] = []
    paths = find_files(user_home / name, find_homes({}, user_home), problems.append)
    return [str(path.relative_to(user_home)) for path in paths], problems


@pytest.mark.parametrize("name", FILES)
def test_finds_files(user_home: Path, name: str) -> None:
    assert files_of(user_home, name) == (FILES[name], [])


def test_finds_hidden_folders_of_an_agent(user_home: Path) -> None:
    """Only those on the way to its transcripts, whichever folder is given."""
    home = "Library/Application Support/Claude/local-agent-mode-sessions"
    kept = f"{home}/a/b/local_1/.claude/projects/-w/1.jsonl"
    for name in (kept, f"{home}/a/b/local_1/.claude/1.json", f"{home}/a/.git/1.jsonl"):
        (user_home / name).parent.mkdir(parents=True, exist_ok=True)
        (user_home / name).touch()

    for folder in ("Library", home, f"{home}/a/b"):
        assert files_of(user_home, folder) == ([kept], [])


def test_viewer_names_and_colours_every_agent() -> None:
    names = (VIEWER / "lib" / "source-names.js").read_text()
    styles = (VIEWER / "styles" / "page.css").read_text()
    agents = [each for each in AGENTS if each.label]

    assert [each.id for each in agents if f'  {each.id}: "{each.name}",\n' not in names] == []
    assert [each.id for each in agents if f'[data-source="{each.id}"]' not in styles] == []


@pytest.mark.parametrize("name", NAMES)
def test_external_ids_are_paths(user_home: Path, name: str) -> None:
    expected = NAMES[name].format(home=real_path(user_home))

    assert external_id(user_home / name, find_homes({}, user_home)) == expected


def test_environment_variable_sets_the_home_of_a_cli(user_home: Path) -> None:
    homes = find_homes({"CLAUDE_CONFIG_DIR": str(user_home / "moved")}, user_home)
    names = ("moved/projects/-work-a/6.jsonl", ".claude/projects/-work-a/1.jsonl")

    assert [external_id(user_home / name, homes) for name in names] == [
        "projects/-work-a/6.jsonl",
        f"{real_path(user_home)}/.claude/projects/-work-a/1.jsonl",
    ]


def test_follows_links_into_each_folder_once(user_home: Path) -> None:
    (user_home / "logs" / "a" / "up").symlink_to(user_home / "logs")
    (user_home / "logs" / "c").symlink_to(user_home / ".codex" / "sessions")
    (user_home / "logs" / "loop.jsonl").symlink_to("loop.jsonl")

    assert files_of(user_home, "logs") == (
        [
            "logs/a/y.jsonl",
            "logs/a/z.json",
            "logs/b.jsonl",
            "logs/c/2026/01/02/rollout-4.jsonl",
            "logs/loop.jsonl",
        ],
        [],
    )


def test_links_do_not_change_the_external_id(user_home: Path) -> None:
    (user_home / "link.jsonl").symlink_to(user_home / ".claude/projects/-work-a/1.jsonl")
    (user_home / "loop.jsonl").symlink_to("loop.jsonl")
    homes = find_homes({}, user_home)

    assert [external_id(user_home / name, homes) for name in ("link.jsonl", "loop.jsonl")] == [
        "projects/-work-a/1.jsonl",
        f"{real_path(user_home)}/loop.jsonl",
    ]


def test_external_id_of_a_path_that_is_not_utf8(tmp_path: Path) -> None:
    path = tmp_path / os.fsdecode(b"caf\xe9.jsonl")

    assert external_id(path, []) == f"{real_path(tmp_path)}/caf\\xe9.jsonl"


def test_reports_a_pipe(user_home: Path) -> None:
    os.mkfifo(user_home / "pipe")
    paths, problems = files_of(user_home, "pipe")

    assert (paths, [problem.strerror for problem in problems]) == ([], ["not a regular file"])


def test_reports_pipes_and_devices_in_a_folder(user_home: Path) -> None:
    folder = user_home / "odd"
    folder.mkdir()
    os.mkfifo(folder / "a.jsonl")
    (folder / "b.jsonl").symlink_to("/dev/zero")
    (folder / "c.jsonl").touch()
    paths, problems = files_of(user_home, "odd")

    assert [Path(name).name for name in paths] == ["c.jsonl"]
    assert [(Path(problem.filename).name, problem.strerror) for problem in problems] == [
        ("a.jsonl", "not a regular file"),
        ("b.jsonl", "not a regular file"),
    ]


def test_folder_has_all_files_of_a_transcript(tmp_path: Path) -> None:
    """OpenCode stores messages next to the folder of sessions."""
    storage, other = tmp_path / "storage", tmp_path / "other" / "storage"
    (storage / "message").mkdir(parents=True)
    (other / "session").mkdir(parents=True)
    paths = ["storage", "storage/session", "storage/session/p", "storage/session/p/ses_1.json"]
    others = ["1.jsonl", "projects", "other/storage/session/p/1.json"]

    assert [places_of(tmp_path / path) for path in paths] == [[storage]] * 4
    assert [places_of(tmp_path / path) for path in others] == [[tmp_path / path] for path in others]


def test_a_known_file_may_become_one_of_a_session_in_several_files(tmp_path: Path) -> None:
    folder, known, errors = tmp_path / "s1", KnownFolders(), list[OSError]()
    write(folder / "s1.json", "{}")
    first = list(find_files(tmp_path, [], errors.append, known=known))
    write(folder / "s1.messages.json", "{}")
    second = list(find_files(tmp_path, [], errors.append, known=known))

    assert (first, second) == ([folder / "s1.json"], [folder / "s1.messages.json"])


def test_the_first_line_of_a_copied_log_of_gptme_states_its_format(tmp_path: Path) -> None:
    """Most of its lines look like those of other programs."""
    recording = (RECORDINGS / "gptme" / "tides.jsonl").read_bytes()
    copy, other, empty = (tmp_path / name for name in ("copy.jsonl", "other.jsonl", "empty.jsonl"))
    copy.write_bytes(recording)
    other.write_bytes(b"".join(recording.splitlines(keepends=True)[3:]))
    empty.write_bytes(b"")

    sources = [open_transcript(path).source for path in (copy, other, empty, tmp_path / "absent.jsonl")]

    assert sources == ["gptme", None, None, None]


def test_the_logs_of_gptme_may_be_in_a_folder_of_their_own(tmp_path: Path) -> None:
    logs = real_path(tmp_path / "chats")
    log = logs / "tides" / "conversation.jsonl"
    log.parent.mkdir(parents=True)
    log.write_text("{}\n")
    (logs / "tides" / "events.jsonl").write_text("{}\n")
    homes = find_homes({"GPTME_LOGS_HOME": str(logs)}, tmp_path)

    paths = [path for home in homes for path in find_transcripts(home, _raise)]
    default = tmp_path / ".local/share/gptme/logs/tides/conversation.jsonl"

    assert paths == [log]
    assert [declared_at(path, homes).source for path in (log, default)] == ["gptme", "gptme"]
    assert external_id(default, homes) == "logs/tides/conversation.jsonl"
    assert [home for home in find_homes({}, tmp_path) if home.agent.folders == ("",)] == []


def test_a_log_folder_in_its_usual_place_is_listed_once(tmp_path: Path) -> None:
    log = tmp_path / ".local/share/gptme/logs/tides/conversation.jsonl"
    log.parent.mkdir(parents=True)
    log.write_text("{}\n")
    homes = find_homes({"GPTME_LOGS_HOME": str(log.parents[1])}, tmp_path)

    assert [path for home in homes for path in find_transcripts(home, _raise)] == [log]


def test_files_outside_of_all_homes_are_not_compared_with_each(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A folder may contain many Markdown files."""
    (tmp_path / "note.md").write_text("Nothing.")
    homes = find_homes({}, tmp_path / "home")
    monkeypatch.setattr(Home, "allows", lambda home, path: pytest.fail(f"{path} compared with {home.path}"))

    assert list(find_files(tmp_path, homes, _raise)) == []


def _raise(error: OSError) -> None:
    raise error


def test_other_files_in_folders_are_skipped_and_reported(tmp_path: Path) -> None:
    """Those of an agent's home are not: they are settings."""
    names = [
        "1.jsonl",
        "1.sse",
        "a/2.yaml",
        "notes.md",
        "opencode.db-wal",
        ".hidden/3.txt",
        ".claude/debug.txt",
    ]
    for name in names:
        write(tmp_path / name, "{}")
    skipped = list[Path]()

    folders = [tmp_path, tmp_path / ".claude"]
    homes = find_homes({}, tmp_path)
    paths = [path for each in folders for path in find_files(each, homes, _raise, on_skipped=skipped.append)]

    assert paths == [tmp_path / "1.jsonl"]
    assert skipped == [tmp_path / "1.sse", tmp_path / "a/2.yaml"]
