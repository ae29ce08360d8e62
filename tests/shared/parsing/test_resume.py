"""The command that continues a session: by agent, id, folder and machine."""

from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import pytest

from ash_shared.model.session import Session
from ash_shared.parsing.resume import resume_command

ID = "0f3c2b1a-9d8e-4c7b-a6f5-1e2d3c4b5a69"
OPENCODE_ID = "ses_4a9b8c7d6e5fABCDEFGHijklmn"
MOMENT = datetime(2026, 11, 28, tzinfo=UTC)


def session(source: str = "claude", provider_id: Any = ID, **fields: Any) -> Session:
    metadata = {} if provider_id is None else {"sessionId": provider_id}
    return Session(
        id=UUID(int=1),
        source=source,
        metadata=metadata | fields.pop("metadata", {}),
        **{
            "createdAt": MOMENT,
            "updatedAt": MOMENT,
            "messageCount": 1,
            "eventCount": 1,
            "errorCount": 0,
            "unrecognisedCount": 0,
            "folder": "/srv/site",
            "machine": "anvil",
            **fields,
        },
    )


def resumed(*arguments: Any, **fields: Any) -> dict[str, Any]:
    return resume_command(session(*arguments, **fields)).model_dump()


@pytest.mark.parametrize(
    ("source", "id", "command"),
    [
        ("claude", ID, f"claude --resume {ID}"),
        ("codex", ID, f"codex resume {ID}"),
        ("gemini_cli", ID, f"gemini --resume {ID}"),
        ("antigravity", ID, f"agy --conversation {ID}"),
        ("cursor", ID, f"cursor-agent --resume {ID}"),
        ("opencode", OPENCODE_ID, f"opencode --session {OPENCODE_ID}"),
        ("copilot_cli", ID, f"copilot --resume={ID}"),
        ("pi", ID, f"pi --session {ID}"),
        ("gptme", "tides-one", "gptme --name tides-one"),
        ("mistral_vibe", ID, f"vibe --resume {ID}"),
        ("crush", ID, f"crush --session {ID}"),
    ],
)
def test_command_of_each_agent(source: str, id: str, command: str) -> None:
    assert resumed(source, id) == {
        "arguments": command.split(),
        "folder": "/srv/site",
        "machine": "anvil",
        "command": f"cd /srv/site && {command}",
    }


@pytest.mark.parametrize(
    ("source", "path"),
    [
        ("cursor", f"projects/srv-site/agent-transcripts/{ID}/{ID}.jsonl"),
        ("cursor", f"projects/srv-site/agent-transcripts/{ID}.json"),
        ("antigravity", f"antigravity-cli/brain/{ID}/.system_generated/logs/transcript.jsonl"),
        ("antigravity", f"antigravity-cli/conversations/{ID}.db"),
        ("gptme", f"logs/{ID}/conversation.jsonl"),
    ],
)
def test_reads_the_id_in_the_path_of_a_transcript(source: str, path: str) -> None:
    arguments = resumed(source, None, externalId=path)["arguments"]

    assert arguments[-1] == ID
    assert resumed(source, None, externalId="x.jsonl", path=path)["arguments"] == arguments


NO_ID = "Its records contain no id that the agent accepts."
HIDDEN = "The name of its folder contains control or bidirectional characters."


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"source": "langchain"}, "No command is known that continues a session of langchain."),
        (
            {"metadata": {"agent": "openclaude"}},
            "No command is known that continues a session of openclaude.",
        ),
        ({"agentId": "a1"}, "It is the session of a subagent. Its parent can be continued."),
        ({"provider_id": None}, NO_ID),
        ({"provider_id": 7}, NO_ID),
        ({"provider_id": "--dangerously-skip-permissions"}, NO_ID),
        ({"provider_id": f"{ID}\n"}, NO_ID),
        ({"provider_id": f"{ID} --model x"}, NO_ID),
        ({"provider_id": ID.upper()}, NO_ID),
        ({"source": "opencode", "provider_id": ID}, NO_ID),
        ({"source": "claude", "provider_id": OPENCODE_ID}, NO_ID),
        (
            {
                "source": "cursor",
                "provider_id": None,
                "externalId": f"projects/a/agent-transcripts/{ID}/subagents/{ID}.jsonl",
            },
            NO_ID,
        ),
        (
            {
                "source": "antigravity",
                "provider_id": None,
                "externalId": f"antigravity-ide/conversations/{ID}.db",
            },
            NO_ID,
        ),
        ({"folder": "/srv/a\nb"}, HIDDEN),
        ({"folder": "/srv/a\x1b[2J"}, HIDDEN),
        ({"folder": "/srv/\u202egpj.a"}, HIDDEN),
        ({"folder": "/srv/a\u2028b"}, HIDDEN),
    ],
    ids=str,
)
def test_reason_without_a_command(fields: dict[str, Any], reason: str) -> None:
    assert resumed(**fields) == {"machine": "anvil", "reason": reason}


@pytest.mark.parametrize(
    ("folder", "expected"),
    [
        ("/srv/a b", {"folder": "/srv/a b", "command": f"cd '/srv/a b' && claude --resume {ID}"}),
        ("/srv/$(id)", {"folder": "/srv/$(id)", "command": f"cd '/srv/$(id)' && claude --resume {ID}"}),
        ("/srv/it's", {"folder": "/srv/it's", "command": f"cd '/srv/it'\"'\"'s' && claude --resume {ID}"}),
        ("C:\\src\\site", {"folder": "C:\\src\\site"}),
        ("site", {}),
        ("-rf", {}),
    ],
)
def test_quotes_the_folder(folder: str, expected: dict[str, str]) -> None:
    assert resumed(folder=folder) == {
        "arguments": ["claude", "--resume", ID],
        "machine": "anvil",
        **expected,
    }
