"""The server covers all event types: API document, topics, counters, groups of chunks and printed output."""

import json
import re
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from ash_server.cli.common.output.event_lines import _HEADLINES, _PRINTERS, EventPrinter
from ash_server.live.websocket_topics import _BLOCKS, _role, _to_blocks
from ash_server.store.log.writer import IssueCounts, _chunk_group
from ash_shared.model.event_types import CATALOGUE, CHUNKS, types_where
from tests.shared.event_examples import EXAMPLES, example

OPENAPI = Path(__file__).parents[2] / "openapi"
TOPIC_TYPES = types_where(lambda row: row.is_topic)


def test_document_has_every_type() -> None:
    document = json.loads((OPENAPI / "openapi.json").read_text(encoding="utf-8"))

    assert document["components"]["schemas"]["KnownEvent"]["discriminator"]["mapping"] == {
        name: f"#/components/schemas/{row.model.__name__}" for name, row in CATALOGUE.items()
    }


def test_declarations_have_every_type() -> None:
    (union,) = re.findall(
        r"^        KnownEvent: (.*);$", (OPENAPI / "ash.d.ts").read_text(encoding="utf-8"), re.M
    )

    assert re.findall(r'components\["schemas"\]\["(\w+)"\]', union) == [
        row.model.__name__ for row in CATALOGUE.values()
    ]


def test_topics_have_blocks_of_every_type() -> None:
    assert _BLOCKS.keys() - TOPIC_TYPES == set()
    assert [name for name in TOPIC_TYPES - _BLOCKS.keys() if CATALOGUE[name].text is None] == []


@pytest.mark.parametrize("name", sorted(TOPIC_TYPES))
def test_blocks_of_topics(name: str) -> None:
    assert [block["type"] for block in _to_blocks(example(name)) if block["type"] == "raw"] == []
    assert _role(example(name)) in ("assistant", "user")


def test_issues_are_counted() -> None:
    counts = {name: tuple(IssueCounts().add([example(name)])) for name in CATALOGUE}

    issues = {"error": (1, 0), "failure": (1, 0), "unrecognised": (0, 1), None: (0, 0)}
    assert counts == {name: issues[row.issue] for name, row in CATALOGUE.items()}


def test_chunks_and_their_complete_event_are_in_one_group() -> None:
    common = {"turnId": "t", "responseId": "r"}
    groups = {name: _chunk_group(example(name, **common)) for name in CATALOGUE}

    assert {name for name, group in groups.items() if group is not None} == CHUNKS | types_where(
        lambda row: row.chunks
    )
    assert {name: groups[name] for name in CHUNKS} == {
        name: groups[row.chunk_of] for name, row in CATALOGUE.items() if row.chunk_of
    }


def printed(event: dict[str, Any]) -> str:
    output = StringIO()
    EventPrinter(Console(file=output, width=500)).show(json.dumps(event))
    return output.getvalue()


SILENT = {"audio_chunk", "reset", "tool_input_chunk", "tool_output_chunk", "turn_start"}
"""Types that `ash tail` does not print: later events show the same."""


@pytest.mark.parametrize("name", CATALOGUE)
def test_tail_prints_the_text_of_every_type(name: str) -> None:
    text = CATALOGUE[name].text
    output = printed(example(name))

    assert (output == "") == (name in SILENT)
    if name not in SILENT and text is not None:
        assert EXAMPLES[name][text] in output
        assert f'"{text}"' not in output


def test_printers_are_those_of_known_types() -> None:
    assert (_PRINTERS.keys() | _HEADLINES.keys()) - CATALOGUE.keys() == set()
