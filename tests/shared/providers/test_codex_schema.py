"""The provider's tables, compared with the schema of a line that Codex prints, and its rollout files of that time."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ash_shared import describe_message, parse_message_content
from ash_shared.model.blocks import Block
from ash_shared.projections import spending_of
from ash_shared.providers.codex import PROVIDER, TYPES
from ash_shared.providers.codex.content import parse_block
from ash_shared.providers.codex.events import EVENT_LINES
from ash_shared.providers.codex.response_items import ITEM_LINES
from tests.shared.leaves import content_of, lost_leaves
from tests.shared.logs import follow
from tests.shared.records.codex import completed
from tests.shared.sample_files import CORPUS

FOLDER = CORPUS.parent / "corpus-next" / "codex_rollout_0_14x"
SAMPLES = sorted(FOLDER.glob("*.jsonl"))
SCHEMAS = sorted(FOLDER.glob("schema__RolloutLine-*.json"))

pytestmark = pytest.mark.skipif(not SCHEMAS, reason="no ../shared/corpus-next next to the repository")

CONTENT = (
    "AgentMessageContent",
    "AgentMessageInputContent",
    "ContentItem",
    "DynamicToolCallOutputContentItem",
    "FunctionCallOutputContentItem",
    "ReasoningItemContent",
    "ReasoningItemReasoningSummary",
    "UserInput",
)


def schema() -> dict[str, Any]:
    decoded: dict[str, Any] = json.loads(SCHEMAS[-1].read_text())
    return decoded


def literals(union: dict[str, Any]) -> set[str]:
    return {name for variant in union["oneOf"] for name in variant["properties"]["type"]["enum"]}


def records(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_tables_contain_all_types_of_the_schema() -> None:
    definitions = schema()["definitions"]

    unknown = {
        "lines": literals(schema()) - TYPES.keys() - {"event_msg", "response_item"},
        "events": literals(definitions["EventMsg"]) - EVENT_LINES.keys(),
        "items": literals(definitions["ResponseItem"]) - ITEM_LINES.keys(),
        "turn items": {
            name for name in literals(definitions["TurnItem"]) if is_unknown(completed(name, id="i"))
        },
        "content": {
            name
            for union in CONTENT
            for name in literals(definitions[union])
            if parse_block({"type": name}).get("reason") == "unknown_type"
        },
    }

    assert not any(unknown.values()), unknown
    assert len(literals(definitions["EventMsg"])) > 80


def is_unknown(record: dict[str, Any]) -> bool:
    parsed = PROVIDER.wire_type(record).parse(record)
    return any(block.get("reason") == "unknown_type" for block in parsed.blocks)


def test_tables_accept_the_lines_of_the_schema_only_in_their_envelope() -> None:
    """Other programs write lines with the same keys inside of others."""
    metadata = {"user_input_order": 1}
    item = {"timestamp": "2026-11-01T10:00:00Z", "type": "response_item", "payload": {"type": "other"}}

    claimed = [
        PROVIDER.recognize(line) is not None
        for line in (
            item,
            {**item, "metadata": metadata},
            {**item, "type": "event_msg", "metadata": metadata},
        )
    ]

    assert claimed == [True, True, False]


@pytest.mark.parametrize("path", SAMPLES, ids=lambda path: path.stem)
def test_samples_are_read_without_loss(path: Path) -> None:
    for number, line in enumerate(path.read_text().splitlines(), 1):
        described = describe_message(line)
        blocks: list[Block] = [block.model_dump(mode="json") for block in parse_message_content(line)]
        lost = lost_leaves(content_of(json.loads(line), "codex_rollout"), blocks)
        assert (number, described.source, described.drift, lost) == (number, "codex", (), {})


UNREPORTED = {"EntityProcess__agentv__002": (88_335, 69)}
"""Input and output tokens that only the total contains: of a response that the person interrupted."""


def own_totals(path: Path) -> Iterator[dict[str, int]]:
    """Yield the totals that the file states, in order."""
    for record in records(path):
        payload = record["payload"]
        if record["type"] == "token_usage_record":
            yield payload["thread_token_usage"]
        elif payload.get("type") == "token_count" and payload["info"]:
            yield payload["info"]["total_token_usage"]


@pytest.mark.parametrize("path", SAMPLES, ids=lambda path: path.stem)
def test_usage_is_the_total_that_the_file_states(path: Path) -> None:
    *_, total = own_totals(path)
    missing = UNREPORTED.get(path.stem, (0, 0))

    usage = spending_of(follow(records(path), ends=True)).usage or {}

    names = ("input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens")
    counted = (sum(usage.get(name, 0) for name in names), usage["output_tokens"])
    assert counted == (total["input_tokens"] - missing[0], total["output_tokens"] - missing[1])
