"""The promises of the parser, over every record of the sample files."""

import json
from collections import Counter
from pathlib import Path

from pydantic import TypeAdapter

from ash_shared import (
    MessageContent,
    RawContent,
    describe_message,
    parse_message_content,
    parse_message_content_json,
    read_message,
)
from tests.shared.leaves import content_of, leaves
from tests.shared.texts import texts_of

BLOCKS = TypeAdapter(list[MessageContent])


def test_every_record_reads_the_same_in_every_way(corpus_folder: Path) -> None:
    for where, text in texts_of(corpus_folder):
        objects = parse_message_content(text)

        dumped = json.loads(BLOCKS.dump_json(objects))

        reading = read_message(text)
        description = describe_message(text)
        assert json.loads(parse_message_content_json(text)) == dumped, where
        assert json.loads(parse_message_content_json(text.encode())) == dumped, where
        assert parse_message_content(text.encode()) == objects == reading.parsed, where
        assert BLOCKS.validate_python(dumped) == objects, where
        assert description[:4] == (
            reading.source,
            reading.kind,
            reading.role,
            tuple(sorted({block.type for block in objects})),
        ), where


def test_no_leaf_of_the_content_is_lost(corpus_folder: Path) -> None:
    for where, text in texts_of(corpus_folder):
        blocks = json.loads(parse_message_content_json(text))
        try:
            record = json.loads(text)
        except ValueError:
            assert [block.get("text", block.get("raw")) for block in blocks] == [text], where
            continue

        lost = leaves(content_of(record)) - leaves(blocks)

        assert not lost, (where, lost.most_common(3))


def test_the_claude_family_is_typed(claude_family: list[Path]) -> None:
    reasons = Counter(
        block.reason if isinstance(block, RawContent) else "typed"
        for folder in claude_family
        for _, text in texts_of(folder)
        for block in parse_message_content(text)
    )

    untyped = reasons["unknown_type"] + reasons["malformed"]

    assert untyped <= 0.005 * reasons.total(), reasons
