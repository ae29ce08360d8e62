"""The sample files that nobody here wrote; they lie beside the repository, not in it."""

from collections.abc import Iterator
from pathlib import Path

import pytest

CORPUS = Path(__file__).parents[3] / "shared" / "corpus"
CLAUDE_FAMILY = ("agent_sdk_stream", "anthropic_api", "claude_code_jsonl", "claude_stream_json")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "corpus_folder" in metafunc.fixturenames:
        folders = sorted(path for path in CORPUS.glob("*/"))
        absent = pytest.param(
            None, marks=pytest.mark.skip(reason="no ../shared/corpus beside the repository")
        )
        metafunc.parametrize(
            "corpus_folder", folders or [absent], ids=lambda path: path.name if path else "absent"
        )


@pytest.fixture
def claude_family() -> list[Path]:
    """The folders of the corpus that hold Claude's formats."""
    if not CORPUS.is_dir():
        pytest.skip("no ../shared/corpus beside the repository")
    return [CORPUS / name for name in CLAUDE_FAMILY]


def texts_of(folder: Path) -> Iterator[tuple[str, str]]:
    """Every stored text of a folder with where it stands: the lines of JSONL, or a whole document."""
    for path in sorted(folder.iterdir()):
        text = path.read_bytes().decode()
        lines = [text] if path.suffix == ".json" else text.split("\n")
        for number, line in enumerate(lines, start=1):
            if line.strip():
                yield f"{path.name}:{number}", line
