"""`ash export`: a trajectory with its images in a folder next to the file, and exports without secrets."""

import json
import shutil
from base64 import b64encode
from pathlib import Path
from typing import Any

import pytest

from tests.server.cli.test_cli import Ran, ran_here
from tests.server.cli.test_cli_serve import running
from tests.shared.projections.atif_schema import Trajectory
from tests.shared.records import claude

PNG = b"\x89PNG\r\n\x1a\n"
SOURCE = {"type": "base64", "media_type": "image/png", "data": b64encode(PNG).decode()}
PROMPT = [{"type": "text", "text": "Which knot?"}, {"type": "image", "source": SOURCE}]
LINE = claude.line("user", PROMPT, uuid="u1", sessionId="s1")


@pytest.fixture
def environment(tmp_path: Path, database_url: str) -> dict[str, str]:
    return {"HOME": str(tmp_path), "ASH_HOME": str(tmp_path), "ASH_DATABASE_URL": database_url}


def run(environment: dict[str, str], *arguments: str) -> Ran:
    return ran_here(arguments, environment, Path(environment["HOME"]))


def test_images_are_files_next_to_the_trajectory(environment: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "knot.jsonl").write_text(json.dumps(LINE))
    assert run(environment, "import", "knot.jsonl", "--as", "knot").code == 0

    assert run(environment, "export", "knot", "--format", "atif", "-o", "out/run.json") == Ran(0, "", "")
    printed = run(environment, "export", "knot", "--format", "atif")
    assert run(environment, "export", "--all", "--format", "atif", "-o", "all").code == 0

    document, shown = read(tmp_path / "out/run.json"), json.loads(printed.out)
    [exported] = (tmp_path / "all").glob("*.trajectory.json")
    assert image_path(document) == "run.media/1.png"
    assert (tmp_path / "out/run.media/1.png").read_bytes() == PNG
    assert image_path(shown) == f"data:image/png;base64,{SOURCE['data']}"
    assert (tmp_path / "all" / image_path(read(exported))).read_bytes() == PNG
    for each in (document, shown, read(exported)):
        Trajectory.model_validate(each)


def test_an_exported_trajectory_can_be_imported(environment: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "knot.jsonl").write_text(json.dumps(LINE))
    run(environment, "import", "knot.jsonl", "--as", "knot")
    run(environment, "export", "knot", "--format", "atif", "-o", "run.json")

    assert run(environment, "import", "run.json", "--as", "again").code == 0
    read_again = run(environment, "messages", "again", "--standard", "--json").out

    assert "Which knot?" in read_again
    assert run(environment, "export", "again").out == (tmp_path / "run.json").read_text()


@pytest.mark.parametrize("form", ["atif", "otlp"])
def test_a_document_without_secrets(environment: dict[str, str], tmp_path: Path, form: str) -> None:
    token = "ghp_" + "a1B2c3D4e5" * 4
    line = claude.line("user", f"Use {token}", uuid="u1")
    (tmp_path / "token.jsonl").write_text(json.dumps(line))
    run(environment, "import", "token.jsonl", "--as", "token")

    assert token in run(environment, "export", "token", "--format", form).out
    assert token not in run(environment, "export", "token", "--format", form, "--redact").out


@pytest.mark.parametrize("form", ["jsonl", "events", "atif", "otlp"])
def test_binary_values_of_databases_are_hidden(
    environment: dict[str, str], tmp_path: Path, form: str
) -> None:
    value = b64encode(b"\x0a\x28ghp_" + b"a1B2c3D4e5" * 4).decode()
    row = {"table": "steps", "key": 1, "columns": {"idx": 1, "data": {"base64": value}}}
    line = claude.line("user", json.dumps(row), uuid="u1")
    (tmp_path / "rows.jsonl").write_text(f"{json.dumps(line)}\n{json.dumps(row)}\n")
    run(environment, "import", "rows.jsonl", "--as", "rows")

    assert value in run(environment, "export", "rows", "--format", form).out
    assert value not in run(environment, "export", "rows", "--format", form, "--redact").out


def read(path: Path) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(path.read_text())
    return document


def image_path(document: dict[str, Any]) -> str:
    return str(document["steps"][0]["message"][1]["source"]["path"])


def test_a_deleted_transcript_is_put_back(environment: dict[str, str], tmp_path: Path) -> None:
    path = tmp_path / ".claude/projects/-w/knot.jsonl"
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps(LINE) + "\r\n\n{}")
    content = path.read_bytes()
    assert run(environment, "import", "--all").code == 0

    kept = run(environment, "export", "projects/-w/knot.jsonl", "--to-disk")
    shutil.rmtree(path.parents[1])
    put_back = run(environment, "export", "projects/-w/knot.jsonl", "--to-disk")

    assert (kept.code, kept.err) == (1, f"ash: {path} exists.\n")
    assert put_back == Ran(0, f"{path}\n", "")
    assert (path.read_bytes(), path.stat().st_mode & 0o777, list(path.parent.iterdir())) == (
        content,
        0o600,
        [path],
    )


@pytest.mark.slow
def test_a_key_that_redacts_puts_nothing_back(environment: dict[str, str], tmp_path: Path) -> None:
    path = tmp_path / ".claude/projects/-w/knot.jsonl"
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps(LINE))
    assert run(environment, "import", "--all").code == 0
    path.unlink()
    key = run(environment, "keys", "create", "guest", "--redact").out.split()[-1]
    with running(
        "serve", "--port", "0", home=tmp_path, ASH_DATABASE_URL=environment["ASH_DATABASE_URL"]
    ) as ash:
        server = {**environment, "ASH_URL": ash.address, "ASH_KEY": key}
        refused = run(server, "export", "projects/-w/knot.jsonl", "--to-disk")

    assert (refused.code, "The key of the server redacts" in refused.err, path.exists()) == (1, True, False)


@pytest.mark.parametrize(
    "name",
    ["projects/-w/../../x.jsonl", "../x.jsonl", "/tmp/x.jsonl", "notes.jsonl", "projects/-link/x.jsonl"],
)
def test_nothing_is_written_outside_of_the_agents_folder(
    name: str, environment: dict[str, str], tmp_path: Path
) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / ".claude/projects").mkdir(parents=True)
    (tmp_path / ".claude/projects/-link").symlink_to(tmp_path / "elsewhere")
    (tmp_path / "knot.jsonl").write_text(json.dumps(LINE))
    run(environment, "import", "knot.jsonl", "--as", name)

    refused = run(environment, "export", name, "--to-disk")

    assert refused.code == 1
    assert "is not from the folder of an agent" in refused.err or "leads outside of" in refused.err
    assert [*tmp_path.rglob("x.jsonl")] == []
