"""Fixtures over the sample files."""

from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest
from _pytest.mark import ParameterSet

from tests.marking import slow_unless
from tests.shared.sample_files import CLAUDE_FAMILY, CORPUS, few_samples, is_small, sample_folders


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "corpus_folder" in metafunc.fixturenames:
        is_fast = metafunc.config.option.markexpr == "not slow"
        cases = corpus_cases(with_parts=is_fast)
        metafunc.parametrize("corpus_folder", cases, ids=case_name, indirect=True)
    if "whole_folder" in metafunc.fixturenames:
        metafunc.parametrize("whole_folder", sample_folders(), ids=lambda path: path.name)


@cache
def corpus_cases(*, with_parts: bool) -> list[ParameterSet]:
    """The folders of samples, with a part of each large one for `make test`, which does not read it completely."""
    folders = sample_folders()
    large = [folder for folder in folders if not is_small(folder)]
    whole = slow_unless(lambda case: case[0] not in large, [(folder, "whole") for folder in folders])
    parts = [pytest.param((folder, "in part")) for folder in large]
    return whole + parts if with_parts else whole


def case_name(case: tuple[Path, str]) -> str:
    folder, extent = case
    return folder.name if extent == "whole" else f"{folder.name} {extent}"


@pytest.fixture
def corpus_folder(request: pytest.FixtureRequest) -> Path:
    folder: Path
    folder, extent = request.param
    return folder if extent == "whole" else request.getfixturevalue("parts")(folder)


@pytest.fixture(scope="session")
def parts(tmp_path_factory: pytest.TempPathFactory) -> Callable[[Path], Path]:
    """Return a folder of the same name with a few of the samples."""

    @cache
    def part(folder: Path) -> Path:
        copy = tmp_path_factory.mktemp("corpus") / folder.name
        copy.mkdir()
        for path in few_samples(folder):
            (copy / path.name).symlink_to(path)
        return copy

    return part


@pytest.fixture
def claude_family() -> list[Path]:
    """Return the folders of the corpus with Claude's formats."""
    if not CORPUS.is_dir():
        pytest.skip("no ../shared/corpus next to the repository")
    return [CORPUS / name for name in CLAUDE_FAMILY]
