"""Sessions with lines of two formats, and with damaged lines, are read without exceptions."""

import pytest

from tests.shared import fuzz
from tests.shared.logs import follow
from tests.shared.records import codex

SAMPLES = fuzz.samples()
NAMES = sorted(SAMPLES)
PAIRS = [
    (name, NAMES[(place + step) % len(NAMES)]) for step in (1, 5, 12) for place, name in enumerate(NAMES)
]
"""Each format with six others; `make fuzz` shuffles all."""
SESSIONS_PER_PAIR = 4


@pytest.mark.slow
@pytest.mark.parametrize("pair", PAIRS, ids="+".join)
def test_shuffled_lines_of_two_formats_are_read(pair: tuple[str, str]) -> None:
    for seed in range(SESSIONS_PER_PAIR):
        fuzz.read(fuzz.shuffled(SAMPLES, seed, pair), seed)


@pytest.mark.parametrize("group", sorted(SAMPLES))
def test_mutated_lines_are_read(group: str) -> None:
    for seed in range(SESSIONS_PER_PAIR):
        fuzz.read(fuzz.mutated(SAMPLES[group], seed), seed)


def test_end_of_another_format_emits_held_copies_once() -> None:
    """The end of the turn releases the copies while the first copy starts to be released."""
    events = follow(
        [
            codex.event("agent_message", message="I look."),
            codex.event("agent_reasoning", text="The tide turns."),
            {"promptFeedback": {"blockReason": "SAFETY"}},
        ],
        ends=True,
    )

    assert [(event["type"], event["payload"].get("text")) for event in events] == [
        ("turn_start", None),
        ("error", None),
        ("assistant_done", "I look."),
        ("thinking_done", "The tide turns."),
        ("turn_end", None),
    ]
