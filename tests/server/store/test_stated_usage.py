"""Reports of usage of the sample files, against the sums of their answers."""

from pathlib import Path

import pytest

from ash_server import Store
from ash_server.transfer.importing.file_import import import_file
from ash_shared.model.usage.report import UsageRow
from tests.marking import slow_unless
from tests.shared.eventlog.stated_totals import NANO, READERS, Totals, answers_of, totals_of
from tests.shared.sample_files import is_small, sample_folders
from tests.shared.texts import paths_of

FOLDERS = [folder for folder in sample_folders() if folder.name in READERS]


def totals_of_row(row: UsageRow) -> Totals:
    return {
        "input": row.input_tokens,
        "cache_read": row.cache_read_input_tokens,
        "cache_write": row.cache_creation_input_tokens,
        "output": row.output_tokens,
        "reasoning": row.reasoning_tokens,
        "cost": round((row.reported_cost_usd or 0) * NANO),
    }


@pytest.mark.skipif(not FOLDERS, reason="no ../shared/corpus next to the repository")
@pytest.mark.parametrize("folder", slow_unless(is_small, FOLDERS), ids=lambda path: path.name)
async def test_report_adds_up_the_answers_of_each_file(store: Store, folder: Path) -> None:
    paths = [path for path in paths_of(folder) if path.suffix in (".json", ".jsonl")]
    expected = dict[str, Totals]()
    for path in paths:
        imported = await import_file(store, path, path.name)
        totals = totals_of(answers_of(path.read_bytes().decode(), imported.head.source))
        expected |= {str(imported.session_id): totals} if any(totals.values()) else {}

    report = await store.usage.report(by=("session",), limit=10_000)

    rows = {str(row.session.id): totals_of_row(row) for row in report.rows if row.session}
    assert {id: rows.get(id) for id in expected} == expected
