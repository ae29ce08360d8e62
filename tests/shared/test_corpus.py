"""Guarantees of the parser, for every record of the sample files."""

import json
import random
import re
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from pydantic import TypeAdapter

from ash_shared import (
    MessageContent,
    RawContent,
    describe_message,
    parse_message,
    parse_message_content,
    parse_message_content_json,
)
from ash_shared.parsing.describe import encode_blocks
from ash_shared.parsing.parse import copy_blocks, find_blocks
from ash_shared.parsing.parsed_text import parse_raw
from ash_shared.providers import discover
from ash_shared.records.contract import CHUNK_PATTERN
from tests.shared.leaves import content_of, lost_leaves
from tests.shared.sample_files import CORPUS, sample_folders
from tests.shared.texts import texts_of

BLOCKS = TypeAdapter(list[MessageContent])


def test_all_functions_read_a_record_alike(corpus_folder: Path) -> None:
    for where, text in texts_of(corpus_folder):
        objects = parse_message_content(text)

        dumped = json.loads(BLOCKS.dump_json(objects))

        message = parse_message(text)
        description = describe_message(text)
        assert json.loads(parse_message_content_json(text)) == dumped, where
        assert json.loads(parse_message_content_json(text.encode())) == dumped, where
        assert parse_message_content(text.encode()) == objects == message.parsed, where
        assert BLOCKS.validate_python(dumped) == objects, where
        assert description[:4] == (
            message.source,
            message.kind,
            message.role,
            tuple(sorted({block.type for block in objects})),
        ), where


def test_copied_blocks_equal_parsed_ones(corpus_folder: Path) -> None:
    for where, text in texts_of(corpus_folder):
        parsed = parse_raw(text, None)
        source = parsed.source(None)
        place = find_blocks(text, source, encode_blocks(parsed))
        assert find_blocks(text, source) in (place, None), where
        if place is not None:
            copied = text.encode()[place.start : place.start + place.size]
            assert copy_blocks(copied) == parse_message_content_json(text, source), where


def test_blocks_contain_all_content(corpus_folder: Path) -> None:
    for where, text in texts_of(corpus_folder):
        blocks = json.loads(parse_message_content_json(text))
        try:
            records = list(values_in(text))
        except ValueError:
            assert [block.get("text", block.get("raw")) for block in blocks] == [text], where
            continue

        lost = lost_leaves([content_of(record, corpus_folder.name) for record in records], blocks)

        assert not lost, (where, lost.most_common(3))


def values_in(text: str) -> Iterator[Any]:
    """Yield the JSON values of a text, which a program may have written one after the other. Raises ValueError."""
    end = 0
    while rest := text[end:].lstrip():
        value, size = json.JSONDecoder().raw_decode(rest)
        end = len(text) - len(rest) + size
        yield value


def test_pattern_matches_chunks_with_parts(corpus_folder: Path) -> None:
    """The server reads only these chunks for standard messages."""
    for where, text in texts_of(corpus_folder):
        parsed = parse_raw(text, None)
        if parsed.content.kind == "chunk" and parsed.parts():
            assert re.search(CHUNK_PATTERN, text), where


def test_claude_blocks_are_typed(claude_family: list[Path]) -> None:
    reasons = Counter(
        block.reason if isinstance(block, RawContent) else "typed"
        for folder in claude_family
        for _, text in texts_of(folder)
        for block in parse_message_content(text)
    )

    untyped = reasons["unknown_type"] + reasons["malformed"]

    assert untyped <= 0.005 * reasons.total(), reasons


INVENTED = {
    "agent_sdk_stream": 19,  # an SDK's own tests: {"type": "user"}, {"type": "unknown_type"}, future_block_type …
    "goose_sqlite": 1,  # futureContent
    "openclaw": 1,  # compact
    "cursor_transcript": 1,  # custom_block, invented by a parser's test
}
"""The number of invented blocks in folders where they exceed the limit."""


def test_nearly_all_blocks_are_typed(whole_folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    texts = [text for _, text in texts_of(whole_folder)]
    reasons = Counter(
        block.reason if isinstance(block, RawContent) else "typed"
        for text in texts
        for block in parse_message_content(text)
    )
    blocks, unknown, malformed = reasons.total(), reasons["unknown_type"], reasons["malformed"]

    share = (unknown + malformed) / blocks
    with capsys.disabled():
        sys.stdout.write(
            f"\n{whole_folder.name:30} {len(texts):6} records {blocks:6} blocks"
            f" {unknown:4} unknown_type {malformed:4} malformed {share:7.2%}"
        )
    assert unknown + malformed <= max(0.02 * blocks, INVENTED.get(whole_folder.name, 0)), reasons


SOURCES = {
    "acp": "acp",
    "agent_framework": "agent_framework",
    "ag_ui": "ag_ui",
    "aider": "aider",
    "amp_thread": "amp_thread",
    "antigravity": "antigravity",
    "atif": "atif",
    "autogen": "autogen",
    "bedrock": "bedrock",
    "chatgpt_export": "chatgpt_export",
    "claude_ai_export": "claude_ai_export",
    "cline_session": "cline_session",
    "cline_task": "cline_task",
    "codex": "codex",
    "continue": "continue",
    "copilot": "copilot_cli",
    "crush": "crush",
    "cursor": "cursor",
    "droid": "droid",
    "gemini_api": "gemini",
    "gemini_cli": "gemini_cli",
    "gemini_interactions": "gemini",
    "google_adk": "google_adk",
    "goose": "goose",
    "gptme": "gptme",
    "grok_build": "grok_build",
    "hermes": "hermes",
    "kimi": "kimi",
    "kiro": "kiro",
    "langchain": "langchain",
    "llm": "llm",
    "mini_swe_agent": "mini_swe_agent",
    "mistral_vibe": "mistral_vibe",
    "openai_chat": "openai_chat",
    "openai_responses": "openai_responses",
    "openclaw": "pi",
    "opencode": "opencode",
    "openhands": "openhands",
    "otel": "otel",
    "pi_": "pi",
    "pydantic_ai": "pydantic_ai",
    "qwen_code": "qwen_code",
    "smolagents": "smolagents",
    "strands": "strands",
    "vercel": "vercel",
    "vscode_copilot_chat": "vscode_copilot_chat",
    "zed": "zed",
}
"""Provider by prefix of the folder name; all other folders contain Claude's formats."""

NONE: tuple[str, ...] = ()
AMBIGUOUS: Mapping[str, Mapping[str, tuple[str, ...]]] = {
    "acp": {  # examples of single objects
        f"agentclientprotocol__agent-client-protocol__002.jsonl:{line}": NONE for line in range(6, 10)
    },
    "ag_ui": {  # invalid events in a project's tests
        "ag-ui-protocol__ag-ui__002.sse.txt:26": NONE,
        "ag-ui-protocol__ag-ui__002.sse.txt:27": NONE,
    },
    "agent_sdk_stream": {
        "BloopAI__vibe-kanban__001.jsonl:9": NONE,  # an invented tool_use line, and its result
        "BloopAI__vibe-kanban__001.jsonl:18": NONE,
        "anthropics__claude-agent-sdk-python__001.jsonl:39": NONE,  # {"type": "unknown_type"}
        "charlieyou__claude-agent-sdk-gleam__008.json:1": NONE,  # the input of a hook
        "charlieyou__claude-agent-sdk-gleam__017.json:1": NONE,  # future_message_type
    },
    "antigravity_cli": {
        "getagentseal__codeburn__001.gen-metadata.json:1": NONE,  # a project's own list of rows
    },
    "anthropic_api": {
        "braintrustdata__lingua__003.json:1": NONE,  # {"error": "Error: 400 …"}
        "pydantic__pydantic-ai__085.jsonl:1": NONE,  # Bedrock's envelope of a token count, and its responses
        "pydantic__pydantic-ai__085.jsonl:2": ("bedrock",),
        "pydantic__pydantic-ai__086.jsonl:1": NONE,
        "pydantic__pydantic-ai__086.jsonl:2": NONE,
        "pydantic__pydantic-ai__087.jsonl:1": NONE,
        "pydantic__pydantic-ai__087.jsonl:2": ("bedrock",),
    },
    "cline_task": {  # messages of the API without a time, which any client may have written
        "kenn-io__agentsview__074.api_conversation_history.json:1": ("claude",),
        "kenn-io__agentsview__075.api_conversation_history.json:1": ("claude",),
        "kenn-io__agentsview__076.api_conversation_history.json:1": ("claude",),
    },
    "codex_rollout": {  # similar lines of other tools, with only a role and a content
        "jazzyalex__agent-sessions__3.jsonl:4": ("claude",),
        "jazzyalex__agent-sessions__8.jsonl:1": ("claude",),
        "jazzyalex__agent-sessions__8.jsonl:4": ("claude",),
        "jazzyalex__agent-sessions__9.jsonl:1": ("claude",),
        "jazzyalex__agent-sessions__9.jsonl:4": ("claude",),
    },
    "cursor_cli": {  # lines without the fields that Cursor adds to Claude's
        "BloopAI__vibe-kanban__001.jsonl:1": ("claude",),
        "BloopAI__vibe-kanban__001.jsonl:2": ("claude",),
        "BloopAI__vibe-kanban__001.jsonl:3": ("claude",),
        "BloopAI__vibe-kanban__001.jsonl:4": ("claude",),
        "jnarowski__agentcmd__001.jsonl:9": ("claude",),
    },
    "droid": {  # messages without calls, which look like pi's
        **{f"jazzyalex__agent-sessions__001.jsonl:{line}": ("pi",) for line in (2, 3, 6, 7, 8)},
        "jazzyalex__agent-sessions__003.jsonl:2": ("pi",),
    },
    "gemini_api_response": {"FirebaseExtended__vertexai-sdk-test-data__31.json:1": NONE},  # {"this": …}
    "gemini_api_stream": {"FirebaseExtended__vertexai-sdk-test-data__19.jsonl:1": NONE},
    "gptme": {  # messages with only a role, a text and a time, which many programs write
        f"tides.jsonl:{line}": ("claude",) for line in (4, 6, 8, 10, 12, 13, 21)
    },
    "grok_build": {  # items of the Responses API are equal
        "jazzyalex__agent-sessions__001.jsonl:4": ("openai_responses",),
        "jazzyalex__agent-sessions__001.jsonl:10": ("openai_responses",),
        "kenn-io__agentsview__001.jsonl:4": ("openai_responses",),
    },
    "langchain_messages": {"vercel__ai__1.jsonl:100": NONE},  # {"__interrupt__": …}
    "openai_chat_response": {"pydantic__pydantic-ai__13.jsonl:1": NONE},  # the echo of a request
    "openai_responses_response": {  # errors are equal in both of the vendor's formats
        "pydantic__pydantic-ai__13.jsonl:1": ("openai_chat",),
        "vercel__ai__21.json:1": ("openai_chat",),
    },
    "openclaw": {"jazzyalex__agent-sessions__002.jsonl:7": NONE},  # an invented type
    "qwen_code": {  # the output of its stream-json is Claude's
        f"generated__qwen-code__009.stream.jsonl:{line}": ("claude",) for line in range(1, 13)
    },
}
"""Sample lines with an ambiguous format, and the provider that reads them without a declared source."""


def records_of(folder: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield each record of a folder with its position."""
    for where, text in texts_of(folder):
        try:
            value = json.loads(text)
        except ValueError:
            continue
        for record in value if isinstance(value, list) else [value]:
            if isinstance(record, dict):
                yield where, record


def test_exactly_one_provider_recognizes_each_record(corpus_folder: Path) -> None:
    providers = discover().values()
    owner = next(
        (source for name, source in SOURCES.items() if corpus_folder.name.startswith(name)), "claude"
    )
    recognized = (
        (where, tuple(provider.source for provider in providers if provider.recognize(record)))
        for where, record in records_of(corpus_folder)
    )

    unexpected = {where: sources for where, sources in recognized if sources != (owner,)}

    ambiguous = AMBIGUOUS.get(corpus_folder.name, {})
    assert {where: sources for where, sources in unexpected.items() if ambiguous.get(where) != sources} == {}


def mixture(records: list[dict[str, Any]], choice: random.Random) -> dict[str, Any]:
    """Return a record with some keys of another, also in nested objects, and sometimes the type of a third."""
    first, second, third = choice.choices(records, k=3)
    mixed = first | {
        key: second[key] for key in choice.sample(sorted(second), choice.randint(0, len(second)))
    }
    for key, value in mixed.items():
        inner = choice.choice((first, second, third)).get(key)
        if isinstance(value, dict) and isinstance(inner, dict):
            mixed[key] = value | {name: inner[name] for name in sorted(inner) if choice.random() < 0.5}
    return mixed | ({"type": third["type"]} if "type" in third and choice.random() < 0.3 else {})


@pytest.mark.slow
def test_at_most_one_provider_recognizes_mixed_records() -> None:
    """The provider is also found through its marks. Each combination of keys has one record, so that rare ones are
    mixed as often as others."""
    if not CORPUS.is_dir():
        pytest.skip("no ../shared/corpus next to the repository")
    providers = discover()
    forms = {
        (folder.name, str(record.get("type")), frozenset(record)): record
        for folder in sample_folders()
        for _, record in records_of(folder)
    }
    records = list(forms.values())
    mixtures = (mixture(records, choice) for choice in map(random.Random, range(4)) for _ in range(5_000))
    conflicts, skipped = [], []

    for record in mixtures:
        sources = [provider.source for provider in providers.values() if provider.recognize(record)]
        found = providers.recognize(record)
        conflicts += [(sources, record)] if len(sources) > 1 else []
        skipped += [] if sources[:1] == ([found[0].source] if found else []) else [(sources, record)]

    assert conflicts == []
    assert skipped == []  # by the marks of their provider
