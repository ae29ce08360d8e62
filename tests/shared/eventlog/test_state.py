"""The stored form of the normaliser's state: a session that was open before an upgrade continues after it."""

import json
from typing import Any

import msgspec
import pytest

from ash_shared.eventlog import state
from ash_shared.eventlog.normalizer import Normalizer

STORED: dict[str, Any] = {
    "turn": {
        "id": "t",
        "ends_by_word": True,
        "phase": "running",
        "has_text": True,
        "usage": {"": {"input_tokens": 1}},
        "added_up": {"d1": [1, 2]},
        "usage_by_agent": {
            "a": {"answer": "d14", "last": {"input_tokens": 1}, "earlier": {"input_tokens": 2}}
        },
        "cost": 0.5,
        "costs": {"d2": 0.25},
        "pieces": 3,
        "checksum": 4,
    },
    "turns": 2,
    "responses": {
        "": {
            "id": "r",
            "told": ["0"],
            "outputs": {"1": "c"},
            "is_begun": True,
            "is_over": True,
            "is_pieced": True,
            "said": ["d3"],
        }
    },
    "slots": [
        {
            "name": "1",
            "kind": "input",
            "lane": "p",
            "response": "r",
            "text": "{",
            "beginning_length": 8,
            "text_number": 1,
            "audio_chunks": 2,
            "call": "c",
            "tool": "Bash",
            "given": {"a": 1},
            "more": {"executor": "server"},
            "is_whole": True,
            "is_built": True,
            "unfinished": {"containers": [["a"], 2], "is_in_string": True},
            "is_named": False,
        }
    ],
    "stored_texts": 1,
    "calls": {
        "c": {
            "tool": "Bash",
            "written": 5,
            "state": "left",
            "seen": "copy",
            "prompt": "d12",
            "is_hosted": True,
        }
    },
    "nameless": ["c"],
    "results": {"c": {"exit_code": 1}},
    "held": [
        {
            "role": "user",
            "text": "Hi",
            "blocks": [{"type": "text", "text": "Hi"}],
            "turn": 1,
            "response": "r",
            "lane": "p",
            "record": "u",
            "timestamp": 6,
            "synthetic": True,
            "phase": "taken",
        }
    ],
    "queue": {"delivered": 1, "records_deliveries": True},
    "said": ["d4"],
    "copied": ["d5"],
    "told": {"assistant/k": {"d6": "e1"}},
    "answers": {"p": {"key": "m", "forms": [["text", "", 12, 3]], "events": ["e2"], "record": "d14"}},
    "sidechain_calls": {"d13": "c"},
    "pieced": ["r"],
    "streamed": {"id": "r", "said": ["d7"]},
    "sent": {"d8": 1},
    "once": ["d9"],
    "speakers": {"k": "user"},
    "prompts_by_parent": {"d11": "u1"},
    "first_prompts": {"d12": "u1"},
    "agent": "plan",
    "counted": "d10",
    "costs": 1.5,
    "paid_by": "s",
    "lag": 7,
    "is_interrupted": True,
    "has_records": True,
}
"""Every stored field with a value that is not its default."""


def test_keeps_the_stored_names() -> None:
    continued = Normalizer(state=json.dumps(STORED)).save()
    assert continued.state is not None
    assert json.loads(continued.state) == STORED
    assert continued[1:] == ([], [])


STRUCTS: dict[str, type[msgspec.Struct]] = {
    "": state.State,
    "turn": state.Turn,
    "turn/usage_by_agent": state.AgentUsage,
    "responses": state.Response,
    "slots": state.Slot,
    "calls": state.Call,
    "answers": state.EmittedAnswer,
    "held": state.HeldCopy,
    "streamed": state.StreamedAnswer,
}


@pytest.mark.parametrize("name", STRUCTS)
def test_covers_every_stored_field(name: str) -> None:
    value: Any = STORED
    for key in filter(None, name.split("/")):
        value = value[key]
    if name in ("responses", "calls", "answers", "turn/usage_by_agent"):
        (value,) = value.values()
    elif isinstance(value, list):
        (value,) = value
    assert list(value) == [field.encode_name for field in msgspec.structs.fields(STRUCTS[name])]
