"""Fixtures over the sample files."""

from pathlib import Path

import pytest

from tests.shared.sample_files import CLAUDE_FAMILY, CORPUS, sample_folders


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "corpus_folder" in metafunc.fixturenames:
        metafunc.parametrize("corpus_folder", sample_folders(), ids=lambda path: path.name)


@pytest.fixture
def claude_family() -> list[Path]:
    """Return the folders of the corpus with Claude's formats."""
    if not CORPUS.is_dir():
        pytest.skip("no ../shared/corpus next to the repository")
    return [CORPUS / name for name in CLAUDE_FAMILY]
