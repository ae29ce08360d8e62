"""The sender of a prompt: the keys of Claude's lines decide, and only without them the text."""

import json
from typing import Any

import pytest

from ash_shared import describe_message, filter_system_messages, to_session_summary, transform_messages
from ash_shared.eventlog import Event
from ash_shared.model.blocks import text_block
from ash_shared.providers.claude.senders import find_sender, is_typed
from ash_shared.records.steps import MessageSender
from tests.shared.providers.test_claude_events import follow
from tests.shared.records import claude
from tests.shared.records.claude import assistant, text

Record = dict[str, Any]

HUMAN = {"origin": {"kind": "human"}}
NOTICE = "<task-notification>\n<task-id>b1</task-id>\n</task-notification>"
TYPED: dict[str, tuple[Record, str, bool]] = {
    "an old line without a sender": ({}, "Go on.", True),
    "typed in a terminal": ({**HUMAN, "promptSource": "typed"}, "Go on.", True),
    "typed in the desktop app": ({**HUMAN, "promptSource": "sdk"}, "Go on.", True),
    "typed while a turn ran": ({**HUMAN, "promptSource": "queued"}, "Go on.", True),
    "a suggestion taken over": ({**HUMAN, "promptSource": "suggestion_accepted"}, "Go on.", True),
    "a script": ({"promptSource": "sdk"}, "Go on.", True),
    "a script, by the client's verdict": ({"turnOrigin": "sdk"}, "Go on.", True),
    "an unknown verdict": ({"turnOrigin": "unknown"}, "Go on.", True),
    "another verdict": ({**HUMAN, "turnOrigin": "scheduled"}, "Go on.", False),
    "another kind": ({"origin": {"kind": "channel", "server": "ci"}, "promptSource": "sdk"}, "Go on.", False),
    "an origin without a kind": ({"origin": {}}, "Go on.", False),
    "a host's user": ({**HUMAN, "hostInitiator": "user"}, "Go on.", True),
    "another initiator": ({**HUMAN, "hostInitiator": "ci-monitor"}, "Go on.", False),
    "a timer": ({"wakeupSource": "schedule_wakeup"}, "Go on.", False),
    "a scheduled task": ({**HUMAN, "scheduledTaskId": "t-1"}, "Go on.", False),
    **{
        flag: ({**HUMAN, flag: True}, "Go on.", False)
        for flag in (
            *("handedOff", "isCompactSummary", "isMeta", "isSidechain", "isVirtual"),
            *("isVisibleInTranscriptOnly", "queueSkipAttachments", "textNotTyped", "turnCompanion"),
        )
    },
    "a flag that is false": ({**HUMAN, "isMeta": False}, "Go on.", True),
    "a result": ({**HUMAN, "toolUseResult": "fine"}, "Go on.", False),
    "a notice with an origin": (HUMAN, NOTICE, False),
    "wrapped text with an origin": (HUMAN, "<system-reminder>Go on.</system-reminder>", True),
    "wrapped text without an origin": ({}, "<system-reminder>Go on.</system-reminder>", False),
}


@pytest.mark.parametrize("name", TYPED)
def test_is_typed(name: str) -> None:
    keys, words, expected = TYPED[name]

    assert is_typed({"type": "user", **keys}, [text_block(words)]) is expected


def test_results_and_images_are_not_typed() -> None:
    assert not is_typed(
        {"type": "user", **HUMAN}, [{"type": "tool_result", "content": "fine"}, text_block("Go on.")]
    )
    assert not is_typed({"type": "user", **HUMAN}, [{"type": "image"}])


def notification(subkind: str) -> Record:
    return {"origin": {"kind": "task-notification", "subkind": subkind}}


SENDERS: dict[str, tuple[Record, MessageSender | None]] = {
    "no key": ({}, None),
    "only the door": ({"promptSource": "typed"}, None),
    "person": ({**HUMAN, "promptSource": "sdk"}, MessageSender("person")),
    "person, by the verdict": ({"turnOrigin": "human"}, MessageSender("person")),
    "script": ({"promptSource": "sdk"}, MessageSender("script")),
    "channel": ({"origin": {"kind": "channel", "server": "ci"}}, MessageSender("channel", "ci")),
    "peer": (
        {"origin": {"kind": "peer", "from": "a7", "name": "Reviewer", "body": "Look."}, "turnOrigin": "peer"},
        MessageSender("peer", "Reviewer", "Look."),
    ),
    "peer without a name": ({"origin": {"kind": "peer", "from": "a7"}}, MessageSender("peer", "a7")),
    "plugin": (
        {"origin": {"kind": "plugin", "name": "tides"}, "pluginPrompt": {"text": "High water."}},
        MessageSender("plugin", "tides", "High water."),
    ),
    "task": ({"origin": {"kind": "task-notification"}, "promptSource": "sdk"}, MessageSender("task")),
    "schedule": (notification("scheduled-trigger"), MessageSender("schedule")),
    "peer by a notification": (notification("peer-send-message"), MessageSender("peer")),
    "a new subkind": (notification("tide"), MessageSender("task")),
    "a new kind": ({"origin": {"kind": "slack-ping"}}, MessageSender("slack-ping")),
    "observer": ({"origin": {"kind": "observer-activity"}}, MessageSender("observer")),
    "continuation": (
        {"origin": {"kind": "auto-continuation"}, "isMeta": True},
        MessageSender("auto-continuation"),
    ),
    "loop": ({"wakeupSource": "loop_wakeup", "turnOrigin": "scheduled"}, MessageSender("loop")),
    "timer": ({"wakeupSource": "schedule_wakeup"}, MessageSender("schedule")),
    "scheduled task": ({"scheduledTaskId": "t-1"}, MessageSender("schedule")),
    "verdict": ({**HUMAN, "turnOrigin": "host_synthetic"}, MessageSender("host")),
    "initiator": ({**HUMAN, "hostInitiator": "ci-monitor"}, MessageSender("host")),
    "inserted by a host": ({**HUMAN, "textNotTyped": True}, MessageSender("host")),
    "a companion of a prompt": ({**HUMAN, "isMeta": True}, None),
    "wrong types": (
        {"origin": "human", "turnOrigin": {}, "hostInitiator": [], "promptSource": 1},
        None,
    ),
}


@pytest.mark.parametrize("name", SENDERS)
def test_find_sender(name: str) -> None:
    keys, expected = SENDERS[name]

    assert find_sender({"type": "user", **keys}, [text_block("Go on.")]) == expected


def line(words: Any, uuid: str, **keys: Any) -> Record:
    return {**claude.line("user", words, uuid=uuid, sessionId="s", parentUuid=f"p{uuid}"), **keys}


def answer(words: str, id: str) -> Record:
    return {**assistant(text(words), id=id), "uuid": f"l-{id}", "sessionId": "s"}


def attachment(prompt: str, **keys: Any) -> Record:
    return {
        "type": "attachment",
        "attachment": {"type": "queued_command", "prompt": prompt, **keys},
        "uuid": "q",
    }


SCHEDULED = {
    "origin": {"kind": "task-notification", "subkind": "scheduled-trigger"},
    "promptSource": "system",
}
PLUGIN = {"origin": {"kind": "plugin", "name": "tides"}, "pluginPrompt": {"text": "High water."}}
REMINDER = "<system-reminder>What does this tag do?</system-reminder>"
SESSION = [
    line("Check the build.", "u1", **SCHEDULED),
    answer("It is green.", "m1"),
    line(REMINDER, "u2", **HUMAN),
    attachment("And the tests?", **HUMAN),
    attachment("Low water.", **PLUGIN),
    answer("It is a note.", "m2"),
    line("The tides plugin sent a message:\nHigh water.", "u3", **PLUGIN),
    answer("Noted.", "m3"),
]


def log() -> list[Event]:
    return follow([json.dumps(record) for record in SESSION])


def test_events_state_the_sender() -> None:
    shown = [
        (event["type"], event["payload"])
        for event in log()
        if event["type"] in ("turn_start", "user_message")
    ]

    by_plugin = {"visibleText": "High water.", "sender": "plugin", "senderName": "tides", "synthetic": True}
    assert shown == [
        ("turn_start", {"trigger": "system"}),
        ("user_message", {"text": "Check the build.", "sender": "schedule", "synthetic": True}),
        ("turn_start", {"trigger": "user"}),
        ("user_message", {"text": REMINDER, "sender": "person"}),
        ("user_message", {"text": "And the tests?", "sender": "person"}),
        ("user_message", {"text": "Low water.", **by_plugin}),
        ("turn_start", {"trigger": "system"}),
        ("user_message", {"text": "The tides plugin sent a message:\nHigh water.", **by_plugin}),
    ]


def test_standard_messages_state_the_sender() -> None:
    messages = [each for each in transform_messages(list(SESSION)) if each.role == "user"]
    shown = [(each.metadata.sender, each.metadata.sender_name, each.metadata.synthetic) for each in messages]

    assert shown == [
        ("schedule", None, True),
        ("person", None, None),
        ("person", None, None),
        ("plugin", "tides", True),
        ("plugin", "tides", True),
    ]
    assert messages[1] in filter_system_messages(messages)


def test_only_prompts_of_persons_name_a_session() -> None:
    described = [describe_message(json.dumps(record)).prompt for record in SESSION]
    summary = to_session_summary(log())

    assert described == [None, None, "What does this tag do?", "And the tests?", None, None, None, None]
    assert (summary.title, summary.user_messages, summary.turns) == ("What does this tag do?", 2, 3)


def test_a_removed_prompt_of_a_program_is_not_shown_as_typed() -> None:
    """Sessions that state senders record deliveries, so a removal alone delivers nothing."""
    queue = [
        {"type": "queue-operation", "operation": "enqueue", "content": "Low water.", "sessionId": "s"},
        {"type": "queue-operation", "operation": "remove", "sessionId": "s"},
    ]
    records = [
        line("Go on.", "u1", **HUMAN),
        answer("Yes.", "m1"),
        *queue,
        attachment("Low water.", **PLUGIN),
    ]

    events = follow([json.dumps(record) for record in records])

    senders = [event["payload"].get("sender") for event in events if event["type"] == "user_message"]
    assert senders == ["person", "plugin"]


def test_a_prompt_stored_again_is_a_copy() -> None:
    records = [line("Go on.", "u1"), answer("Yes.", "m1"), line("Go on.", "u2", sentAsUuid="u1")]

    events = follow([json.dumps(record) for record in records])

    assert [event["recordId"] for event in events if event["type"] == "user_message"] == ["u1"]
    assert [message.metadata.shadow_of for message in transform_messages(list(records))] == [None, None, "u1"]
