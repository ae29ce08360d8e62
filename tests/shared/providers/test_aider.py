"""The sections of Aider's chat history, their standard messages and events."""

import itertools
from typing import Any

import pytest

from ash_shared import describe_message, parse_message, transform_messages
from ash_shared.eventlog import Normalizer, parse_line
from ash_shared.providers.aider.sections import split_sections
from tests.shared.logs import context, short_events
from tests.shared.sample_files import RECORDINGS
from tests.shared.transcripts import short_message

RECORDED = (RECORDINGS / "aider" / "tides.md").read_text()
START = "\n# aider chat started at 2026-03-02 09:00:00\n\n"
CUT = "This is a long answer that goes on and on, about the sea, the moon, and how the tides of the two mee"
MODEL = {"model": "openai/mock-model"}


def sections(text: str) -> list[str]:
    """Return the sections as they are stored: without their last newline."""
    return [section.removesuffix("\n") for section in split_sections(text)]


def recorded_chats() -> list[str]:
    head, *chats = RECORDED.split("\n# aider chat started at ")
    assert head == ""
    return [f"\n# aider chat started at {chat}" for chat in chats]


def messages(text: str) -> list[tuple[Any, ...]]:
    found = transform_messages(sections(text), "aider")
    return [short_message(message, {}) for message in found]


def conversation(text: str) -> list[tuple[Any, ...]]:
    return [message for message in messages(text) if message[0] != "system" or len(message) > 2]


def events(text: str) -> list[tuple[Any, ...]]:
    normalizer = Normalizer("aider")
    found = [
        event
        for number, section in enumerate(sections(text), 1)
        for event in normalizer.follow(parse_line(section, "aider"), context(number))
    ]
    return short_events([*found, *normalizer.close(context("end"))])


def test_first_recorded_chat() -> None:
    asked, answered = conversation(recorded_chats()[0])

    assert asked == ("user", [("text", "Start the table\nat six")])
    [(_, answer)] = answered[1]
    assert isinstance(answer, str)
    assert answer.startswith("The table starts at six.")
    assert "#### The first tide  \n\n> START is an hour.  \n" in answer
    assert answer.endswith(">>>>>>> REPLACE\n```")
    assert answered[2] == {**MODEL, "usage": (2400, 75, None, None)}


def test_recorded_chat_with_an_error_and_an_interruption() -> None:
    assert conversation(recorded_chats()[1]) == [
        ("user", [("text", "What is in the table?")]),
        (
            "assistant",
            [("text", "#### Summary\n\nThe table has **one** value:\n\n> START = 6\n\n1. It is an hour.")],
            {**MODEL, "usage": (2400, 24, None, None)},
        ),
        ("user", [("text", "And the moon?")]),
        (
            "system",
            [("text", "litellm.BadRequestError: OpenAIException - The prompt is too long")],
            {"error": "BadRequestError"},
        ),
        ("user", [("text", "Tell me all about tides")]),
        (
            "assistant",
            [("text", CUT)],
            MODEL,
        ),
    ]


def test_notices_and_commands_are_one_message() -> None:
    assert messages(
        f"{START}> Aider v0.86.2  \n> Model: m1 with diff edit format  \n\n#### /drop a.py  \n"
    ) == [
        (
            "system",
            [("text", "Aider v0.86.2"), ("text", "Model: m1 with diff edit format"), ("text", "/drop a.py")],
        )
    ]


@pytest.mark.parametrize(
    ("prompt", "role"),
    [("/add a.py", "system"), ("!ls", "system"), ("/ask why?", "user"), ("/home/a.py is wrong", "user")],
)
def test_commands_are_not_prompts(prompt: str, role: str) -> None:
    assert parse_message(f"\n#### {prompt}  ", "aider").role == role


def test_events() -> None:
    report = "Tokens: 1.2k sent, 9 received."
    answered = f"{START}\n#### How many?  \n\nFour.\n\n> {report}  \n"
    text = f"{answered}\n#### And now?  \n> ^C again to exit  \n"
    usage = {"input_tokens": 1200, "output_tokens": 9, "total_tokens": 1209, "vendor": {"report": report}}

    assert events(text) == [
        ("turn_start", {"trigger": "user"}),
        ("user_message", {"text": "How many?"}),
        ("assistant_done", {"text": "Four."}),
        ("system_message", {"text": report, "variant": "notice"}),
        ("turn_end", {"usage": usage}),
        ("turn_start", {"trigger": "user"}),
        ("user_message", {"text": "And now?"}),
        ("system_message", {"text": "^C again to exit", "variant": "notice"}),
        ("interrupt", {"reason": "user_cancel"}),
        ("turn_end", {"partial": True}),
    ]


@pytest.mark.parametrize(
    ("report", "counts", "cost"),
    [
        ("1.4k sent, 243 received.", (1400, 243, None, None), None),
        ("5,244 sent, 604 received. Cost: $0.02 request, $0.05 session.", (5244, 604, None, None), 0.02),
        (
            "12k sent, 2.0k cache write, 8.5k cache hit, 1.1k received.\nCost: $0.0061 message, $1.02 session.",
            (1500, 1100, 2000, 8500),
            0.0061,
        ),
    ],
)
def test_usage(report: str, counts: tuple[int | None, ...], cost: float | None) -> None:
    [_, answer, *_] = transform_messages(sections(f"\n#### How?  \n\nSo.\n\n> Tokens: {report}  \n"), "aider")

    assert answer.usage is not None
    usage = answer.usage
    assert (
        usage.input_tokens,
        usage.output_tokens,
        usage.cache_creation_input_tokens,
        usage.cache_read_input_tokens,
    ) == counts
    assert answer.metadata.cost_usd == cost


def test_a_section_stays_the_same_when_the_file_grows() -> None:
    whole = list(split_sections(RECORDED))
    ends = list(itertools.accumulate(map(len, whole)))

    for number, end in enumerate(ends, 1):
        assert list(split_sections(RECORDED[:end])) == whole[:number]


@pytest.mark.parametrize(
    "answer",
    [
        pytest.param("```\n\n> so  \n\n#### this  \n```", id="in code"),
        pytest.param("It is so:\n\n> a quotation\n\n#### A heading\n\ntext", id="without two blanks"),
        pytest.param("#### A heading\n\n```\n\n# aider chat started at dawn\n\n```", id="at the beginning"),
    ],
)
def test_an_answer_may_look_like_other_sections(answer: str) -> None:
    assert messages(f"\n#### Why?  \n\n{answer}\n\n> Applied edit to a.py  \n") == [
        ("user", [("text", "Why?")]),
        ("assistant", [("text", answer)]),
        ("system", [("text", "Applied edit to a.py")]),
    ]


def test_code_without_an_end_ends_with_the_report() -> None:
    assert messages("\n#### Why?  \n\n```\ncut\n\n> Tokens: 9 sent, 2 received.  \n")[1:] == [
        ("assistant", [("text", "```\ncut")], {"usage": (9, 2, None, None)}),
        ("system", [("text", "Tokens: 9 sent, 2 received.")]),
    ]


def test_a_notice_may_have_lines() -> None:
    text = "> commit 1\n\n    Begin  \n> Aider v1.0  \n"
    assert messages(text) == [("system", [("text", "commit 1\n\n    Begin"), ("text", "Aider v1.0")])]


@pytest.mark.parametrize("text", ['{"a": 1}', "[1]", '"text"', "", "\n\n", "> ", "\n#### "])
def test_every_text_is_a_section(text: str) -> None:
    [block] = parse_message(text, "aider").parsed
    value = block.model_dump()
    assert str(value.get("text", value.get("raw"))).strip() in text


def test_only_the_start_of_a_chat_is_recognized() -> None:
    start = describe_message(sections(START)[0])

    assert (start.source, start.kind) == ("aider", "record")
    assert (start.header.timestamp, start.header.session_id) == (1772442000000, "2026-03-02 09:00:00")
    assert describe_message("\n#### How?  ").source == "unknown"
