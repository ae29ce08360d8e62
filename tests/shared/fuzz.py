"""Shuffled lines of pairs of formats, and mutated lines, read by every function of the library.

Run as a script, it reads many more lines than the tests do, also from real files if there are any.
"""

import argparse
import itertools
import json
import random
import sys
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from ash_shared import describe_message, parse_message_content_json, transform_messages
from ash_shared.eventlog import Context, Normalizer
from ash_shared.parsing.parsed_text import identify
from ash_shared.testing import vectors
from tests.shared.logs import SESSION

CORPUS = Path(__file__).parents[3] / "shared" / "corpus"
_MAX_FILE_SIZE = 200_000
_MAX_LINES_PER_FILE = 40
_LINES_PER_SESSION = 40
_VALUES: Sequence[Any] = (
    None, 0, 1, -1, 1.5, True, "", "x", [], {}, [None], {"a": 1}, [[]],
    "call", ["x"], {"type": "text"}, {"id": None}, 2**70,
)  # fmt: skip
_DECLARED = (None, None, "claude", "codex", "gemini", "openai_chat", "cursor", "nonsense")


def samples() -> dict[str, list[str]]:
    """Return the texts of the vectors by format."""
    texts = defaultdict[str, list[str]](list)
    for vector in vectors():
        texts[vector.group].append(vector.raw)
    return dict(texts)


def corpus() -> dict[str, list[str]]:
    """Return the first lines of the small real files by folder; empty where they are absent."""
    texts = defaultdict[str, list[str]](list)
    for path in sorted(CORPUS.rglob("*.json*")):
        if path.stat().st_size <= _MAX_FILE_SIZE:
            text = path.read_text(encoding="utf-8", errors="replace")
            texts[path.relative_to(CORPUS).parts[0]] += (
                text.splitlines()[:_MAX_LINES_PER_FILE] if path.suffix == ".jsonl" else [text]
            )
    return dict(texts)


def shuffled(pools: Mapping[str, Sequence[str]], seed: int, pair: tuple[str, str]) -> list[str]:
    """Return a session of lines of two formats: sections in their order, interrupted by single lines of either."""
    chance = random.Random(f"{seed}{pair}")
    pool = [*pools[pair[0]], *pools[pair[1]]]
    starts = [chance.randrange(len(pool)) for _ in range(_LINES_PER_SESSION)]
    sections = [pool[start : start + chance.randrange(1, 8)] for start in starts]
    lines = [line for section in sections for line in section][:_LINES_PER_SESSION]
    for _ in range(chance.randrange(10)):
        first, second = chance.randrange(len(lines)), chance.randrange(len(lines))
        lines[first], lines[second] = lines[second], lines[first]
    return lines


def mutated(pool: Sequence[str], seed: int) -> list[str]:
    """Return a session of lines with some values replaced or removed."""
    chance = random.Random(seed)
    start = chance.randrange(len(pool))
    lines = []
    for number in range(_LINES_PER_SESSION):
        line = pool[(start + number) % len(pool)] if chance.random() < 0.8 else chance.choice(pool)
        try:
            record = json.loads(line)
        except (ValueError, RecursionError):
            lines.append(line[: chance.randrange(len(line) + 1)])
            continue
        for _ in range(chance.randrange(1, 4)):
            record = _mutate(record, chance)
        lines.append(json.dumps(record))
    return lines


def _mutate(value: Any, chance: random.Random, depth: int = 0) -> Any:
    is_leaf = depth > 8 or not isinstance(value, dict | list) or not value
    if is_leaf:
        return chance.choice(_VALUES)
    key = chance.choice(list(value)) if isinstance(value, dict) else chance.randrange(len(value))
    entries = dict(value) if isinstance(value, dict) else dict(enumerate(value))
    fate = chance.random()
    if fate < 0.12:
        del entries[key]
    elif fate < 0.45:
        entries[key] = chance.choice(_VALUES)
    else:
        entries[key] = _mutate(entries[key], chance, depth + 1)
    return entries if isinstance(value, dict) else [*entries.values()]


def read(lines: Sequence[str], seed: int) -> None:
    """Read a session with every function; raises whatever they raise."""
    chance = random.Random(seed)
    ids = itertools.count()
    context = Context(SESSION, lambda: f"e{next(ids)}", lambda: 5)
    source = chance.choice(_DECLARED)
    normalizer = Normalizer(source)
    for line in lines:
        json.loads(parse_message_content_json(line, source))
        describe_message(line, source)
        identify(line, source)
        for event in normalizer.normalize(line, context):
            event.model_dump_json()
        if chance.random() < 0.3:
            normalizer = Normalizer(source, state=normalizer.state())
    normalizer.end(context)
    for message in transform_messages(lines, source):
        message.model_dump_json()


def _sessions(pools: Mapping[str, Sequence[str]]) -> Iterator[tuple[str, int, list[str]]]:
    """Yield shuffled and mutated sessions without end, as kind, seed and lines."""
    pairs = list(itertools.combinations(sorted(pools), 2))
    pool = [line for lines in pools.values() for line in lines]
    for seed in itertools.count():
        yield "shuffled", seed, shuffled(pools, seed, pairs[seed % len(pairs)])
        for mutation in range(5 * seed, 5 * seed + 5):
            yield "mutated", mutation, mutated(pool, mutation)


def main() -> int:
    parser = argparse.ArgumentParser(
        description="Read shuffled and mutated lines until none of a kind is left."
    )
    parser.add_argument(
        "--lines", type=int, default=200_000, help="shuffled lines; five times as many are mutated"
    )
    remaining = parser.parse_args().lines * 6
    counts: dict[str, int] = {"shuffled": 0, "mutated": 0}
    pools = {f"vectors/{name}": lines for name, lines in samples().items()} | corpus()
    for kind, seed, lines in _sessions(pools):
        try:
            read(lines, seed)
        except Exception as error:
            error.add_note(f"{kind} session, seed {seed}, after {counts} lines")
            raise
        counts[kind] += len(lines)
        if sum(counts.values()) >= remaining:
            break
    sys.stdout.write(f"{counts['shuffled']} shuffled and {counts['mutated']} mutated lines: no exception\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
