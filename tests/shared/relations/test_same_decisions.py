"""Standard messages and the event log decide alike: about each text, call and result of 150 mixtures of sessions.

They are two state machines with different memory and output, so this compares decisions only: the message of the API,
the subagent's call, turns, copies, retractions, usage and costs. See docs/message-flow.md.
"""

import json
import random
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from ash_shared.records.digests import text_digest
from ash_shared.records.steps import Chunk
from tests.shared.decisions import differences, has_step, read_events

MIXTURES = 150
MAX_RUN = 6
"""Lines of a session between lines of another one."""

EXPECTED: Mapping[str, tuple[list[str], str]] = {
    "antigravity: antigravity stream": (
        ["standing text Gulls.: 0 and 1"],
        "the messages of the fragments have the text, and the whole text is a copy of them",
    ),
    "claude: claude file: a task in the background ends": (
        [
            "turn <task-notification><task-id>b1</task-id><status>completed</status></task-notification>",
        ],
        "the log gives a turn to what follows the end of another one",
    ),
    "claude: claude file: clear without an output, and with one": (
        ["standing user /clear: 1 and 2", "turn <local-command-stdout></local-command-stdout>"],
        "messages drop a line that is repeated with its id; the log does not remember all lines",
    ),
    "codex: exec second process after a cut": (
        ["standing call item_0: 1 and 2"],
        "the item of the second process has the same id; messages know only turns that a prompt begins",
    ),
    "codex: rollout token counts repeated": (
        ["usage (60, 4) and (70, 9)"],
        "usage before the first answer belongs to no message",
    ),
    "cursor: cursor partial output across a tool, cumulative last text": (
        ["standing text Ilook.: 0 and 1"],
        "the messages of the fragments have the text, and the whole text is a copy of them",
    ),
    "openai_responses: responses ids rotate": (
        ["key text Hey", "key call a"],
        "the log states the first id of a response at once, messages the last one",
    ),
}
"""The sessions of `tests/shared/sessions` with different decisions, and the reason. All others must agree."""

EXPECTED_OF_MIXTURES: Mapping[int, tuple[list[str], str]] = {
    39: (
        ["standing user Go: 2 and 1", "key thinking **Plan**", "key thinking **More**", "key text Done."],
        "messages match a copy in the next turn at most; in the log, an item without an id is of the open response",
    ),
    45: (
        ["standing call item_0-2: 3 and 2"],
        "a prompt of another session comes between two records of an item: keys of messages end with their turn",
    ),
    62: (
        ["turn <user_action><action>review</action></user_action>"],
        "the log has no turn for a message of the client between turns",
    ),
    111: (["standing user One: 2 and 1"], "messages match a copy in the next turn at most"),
}
"""The mixtures with different decisions by seed, and the reason."""


class Session(NamedTuple):
    name: str
    records: list[Any]


def sessions() -> Iterator[Session]:
    for path in sorted((Path(__file__).parents[1] / "sessions").glob("*.json")):
        for name, session in json.loads(path.read_text(encoding="utf-8")).items():
            yield Session(f"{path.stem}: {name}", session["lines"])


SESSIONS = list(sessions())


def lines_of(records: Sequence[Any]) -> list[str]:
    return [json.dumps(record) for record in records]


@pytest.mark.parametrize("session", SESSIONS, ids=lambda session: session.name)
def test_session_is_decided_alike(session: Session) -> None:
    assert differences(lines_of(session.records)) == EXPECTED.get(session.name, ([],))[0]


def is_id(name: str) -> bool:
    return name.replace("_", "").lower().endswith(("id", "uuid"))


def ids_in(value: Any, name: str = "") -> Iterator[str]:
    if isinstance(value, dict):
        for key, item in value.items():
            yield from ids_in(item, key)
    elif isinstance(value, list):
        for item in value:
            yield from ids_in(item, name)
    elif isinstance(value, str) and value and is_id(name):
        yield value


_CONTENT_NAMES = frozenset({"content", "name", "prompt", "role", "text", "type"})


def with_other_ids(value: Any, ids: set[str], mark: str, name: str = "") -> Any:
    """Return the records with ids that occur in no other session of the mixture."""
    if isinstance(value, dict):
        return {key: with_other_ids(item, ids, mark, key) for key, item in value.items()}
    if isinstance(value, list):
        return [with_other_ids(item, ids, mark, name) for item in value]
    is_other = isinstance(value, str) and value in ids and name not in _CONTENT_NAMES
    return f"{value}-{mark}" if is_other else value


@cache
def texts() -> dict[str, set[str]]:
    """Return the texts of each session of `tests/shared/sessions`."""
    return {session.name: texts_of(session) for session in SESSIONS}


def texts_of(session: Session) -> set[str]:
    return {
        unit.name
        for unit in read_events(lines_of(session.records)).units
        if unit.kind not in ("call", "result")
    }


def mixture(seed: int) -> tuple[list[str], list[str]]:
    """Return the names and the lines of three sessions without a common text: one after another, or mixed.

    A stream is not interrupted: what its fragments belong to depends on the line before. Another session in
    `tests/shared/sessions` changes only the mixtures that it is in.
    """
    chance = random.Random(seed)
    known = [session for session in SESSIONS if session.name not in EXPECTED]
    pool = sorted(known, key=lambda session: text_digest(f"{seed} {session.name}"))
    chosen: list[Session] = []
    for session in pool:
        if len(chosen) < 3 and not any(texts()[session.name] & texts()[other.name] for other in chosen):
            chosen.append(session)
    parts = [
        lines_of(with_other_ids(session.records, set(ids_in(session.records)), str(number)))
        for number, session in enumerate(chosen)
    ]
    names = [session.name for session in chosen]
    if seed % 2 == 0:
        return names, [line for part in parts for line in part]
    rest = [(part, len(part) if has_step(part, Chunk) else None) for part in parts]
    lines: list[str] = []
    while rest := [(part, run) for part, run in rest if part]:
        part, run = chance.choice(rest)
        count = run or chance.randint(1, MAX_RUN)
        lines += part[:count]
        del part[:count]
    return names, lines


@pytest.mark.parametrize("seed", range(MIXTURES))
def test_mixture_is_decided_alike(seed: int) -> None:
    names, lines = mixture(seed)

    assert (names, differences(lines)) == (names, EXPECTED_OF_MIXTURES.get(seed, ([],))[0])
