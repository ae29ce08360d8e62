"""Third-party sample files, stored outside the repository."""

from pathlib import Path

import pytest

CORPUS = Path(__file__).parents[3] / "shared" / "corpus"
CLAUDE_FAMILY = ("agent_sdk_stream", "anthropic_api", "claude_code_jsonl", "claude_stream_json")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "corpus_folder" in metafunc.fixturenames:
        folders = sorted(path for path in CORPUS.glob("*/"))
        absent = pytest.param(
            None, marks=pytest.mark.skip(reason="no ../shared/corpus next to the repository")
        )
        metafunc.parametrize(
            "corpus_folder", folders or [absent], ids=lambda path: path.name if path else "absent"
        )


@pytest.fixture
def claude_family() -> list[Path]:
    """Return the folders of the corpus with Claude's formats."""
    if not CORPUS.is_dir():
        pytest.skip("no ../shared/corpus next to the repository")
    return [CORPUS / name for name in CLAUDE_FAMILY]
