"""The sums of answers, against the totals that the tools state in their own files."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from tests.shared.eventlog.stated_totals import READERS, Totals, answers_of, records_of, totals_of
from tests.shared.texts import files_of


class Difference(NamedTuple):
    reason: str
    more: Totals
    """What Ash counts more than the tool states."""


COPIED_TOTAL = "An imported session: the importer wrote no sums into its row."
CREDITS = "The cost is in credits of a plan, which Ash shows as units."
INVENTED_RESUMPTION = (
    "Invented lines. Copilot CLI states the usage since the session was started or resumed, and the reader of"
    " stated totals uses the last statement."
)

DIFFERENCES: Mapping[str, Mapping[str, Difference]] = {
    "agent_sdk_stream": {
        "claude_results anthropics__claude-agent-sdk-python__001.jsonl": Difference(
            "Lines of several tests in one file; some answers have no result.", {"input": 100, "output": 50}
        ),
        "claude_models anthropics__claude-agent-sdk-python__001.jsonl": Difference(
            "The same; and the invented result states cached tokens by model only.",
            {"input": 100, "cache_read": -18012, "output": 50},
        ),
        "claude_models charlieyou__claude-agent-sdk-gleam__010.json": Difference(
            "A result without its stream: `usage` is of the main agent, `modelUsage` of the subagents too. The cost"
            " contains them.",
            {"input": -20, "cache_read": -11521, "cache_write": -6092, "output": -341},
        ),
    },
    "atif": {
        "atif_metrics generated__heron__001.json": Difference(
            "The total includes the embedded trajectory of a subagent, which is a session of its own, and an"
            " invented cost.",
            {"input": -300, "output": -12, "cost": -2_100_000},
        ),
        "atif_metrics meridianlabs-ai__inspect_scout__003.json": Difference(
            "The total includes the answers of an earlier trajectory. Its steps are copied without usage.",
            {"input": -3552, "output": -500, "cost": -13_880_000},
        ),
    },
    "claude_code_2_1_2xx": {
        "claude_cost_states generated__2_1_330__001.jsonl": Difference(
            "The total includes a request of the program itself, which no line contains. Its cost is an estimate"
            " of Claude Code, and no reported cost of an answer.",
            {"input": -900, "output": -40, "cost": -81_500_000},
        ),
    },
    "codex_rollout": {
        "codex_rollout jazzyalex__agent-sessions__1.jsonl": Difference(
            "The last total was replaced by 0 when the file was shortened.",
            {"input": 12757, "cache_read": 3584, "output": 81, "reasoning": 63},
        ),
        "codex_rollout jazzyalex__agent-sessions__7.jsonl": Difference(
            "Invented lines without a turn. Before the first turn, a resumed thread repeats its total.",
            {"input": -1211, "cache_read": -10880, "output": -182, "reasoning": -128},
        ),
    },
    "codex_rollout_0_14x": {
        "codex_rollout EntityProcess__agentv__002.jsonl": Difference(
            "The last request of an interrupted turn: only the next total includes it.",
            {"input": -399, "cache_read": -87936, "output": -69},
        ),
    },
    "copilot_cli": {
        "copilot_shutdowns jazzyalex__agent-sessions__001.jsonl": Difference(CREDITS, {"cost": -32_363_850}),
        "copilot_shutdowns kenn-io__agentsview__026.jsonl": Difference(CREDITS, {"cost": -25_000_000}),
        "copilot_shutdowns kenn-io__agentsview__027.jsonl": Difference(
            INVENTED_RESUMPTION,
            {"input": 30, "cache_read": 60, "cache_write": 10, "output": 50, "cost": -27_500_000},
        ),
        "copilot_shutdowns kenn-io__agentsview__028.jsonl": Difference(
            INVENTED_RESUMPTION, {"input": -100, "output": -30, "cost": -12_500_000}
        ),
        "copilot_shutdowns kenn-io__agentsview__029.jsonl": Difference(CREDITS, {"cost": -12_500_000}),
        "copilot_shutdowns kenn-io__agentsview__030.jsonl": Difference(
            INVENTED_RESUMPTION, {"input": -100, "output": -30}
        ),
    },
    "opencode_sqlite": {
        "opencode_rows imported__nimbus__001.db": Difference(
            COPIED_TOTAL,
            {"input": 68688, "cache_read": 7168, "output": 3327, "reasoning": 2556, "cost": 203_820_400},
        ),
        "opencode_rows imported__nimbus__001.db 2": Difference(
            COPIED_TOTAL,
            {"input": 23045, "cache_read": 13440, "output": 1274, "reasoning": 564, "cost": 68_412_750},
        ),
        "opencode_rows imported__nimbus__001.db 3": Difference(
            COPIED_TOTAL,
            {"input": 25890, "cache_read": 215168, "output": 3917, "reasoning": 3122, "cost": 181_507_900},
        ),
    },
}
"""All differences, by folder, reader and file; sessions of a database are numbered."""


def sessions_of(folder: Path) -> Iterator[tuple[str, str, bool]]:
    """Yield name and text of each session, and whether it is a document."""
    numbers = dict[str, int]()
    for path, text in files_of(folder):
        number = numbers[path.name] = numbers.get(path.name, 0) + 1
        yield path.name if number == 1 else f"{path.name} {number}", text, path.suffix == ".json"


def test_answers_add_up_to_the_totals_that_tools_state(whole_folder: Path) -> None:
    compared, differences = 0, dict[str, Totals]()
    for name, text, is_document in sessions_of(whole_folder):
        for reader in READERS.get(whole_folder.name, ()):
            stated = reader(records_of(text, is_document=is_document))
            compared += bool(stated)
            counted = totals_of(answers_of(text)) if stated else {}
            more = {key: counted[key] - count for key, count in stated.items() if counted[key] != count}
            differences |= {f"{reader.__name__} {name}": more} if more else {}
    expected = DIFFERENCES.get(whole_folder.name, {})
    assert differences == {name: difference.more for name, difference in expected.items()}
    assert compared or whole_folder.name not in READERS, "no totals found"


def test_known_differences_have_a_reader() -> None:
    assert not DIFFERENCES.keys() - READERS.keys()
    names = {name.split()[0] for files in DIFFERENCES.values() for name in files}
    assert names <= {reader.__name__ for readers in READERS.values() for reader in readers}
