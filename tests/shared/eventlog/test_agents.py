"""Switches between agents that follow from the results of tools, and from posted events."""

from typing import Any

import pytest

from tests.shared.logs import follow

Record = dict[str, Any]


def handoff(result: Any, name: str = "transfer_to_sales") -> list[Record]:
    call = {"type": "function_call", "id": "f1", "call_id": "c1", "name": name, "arguments": "{}"}
    return [call, {"type": "function_call_output", "call_id": "c1", "output": result}]


def posted(to: str) -> Record:
    payload = {"fromAgentId": "Triage", "toAgentId": to}
    return {"type": "agent_switch", "sessionId": "s", "payload": payload}


def switches(records: list[Record]) -> list[Any]:
    return [event["payload"] for event in follow(records) if event["type"] == "agent_switch"]


@pytest.mark.parametrize(
    ("records", "expected"),
    [
        (handoff('{"assistant": "Sales"}'), [{"toAgentId": "Sales"}]),
        (handoff("Successfully transferred to sales"), [{"toAgentId": "sales"}]),
        (handoff("Successfully transferred back to boss", "transfer_back_to_boss"), [{"toAgentId": "boss"}]),
        (handoff('{"assistant": "Sales"}', "ask_sales"), []),
        (handoff('{"assistant": "Sales", "of": 2}'), []),
        (handoff('{"assistant": 2}'), []),
        (handoff("{"), []),
        (handoff("[" * 100_000), []),
        (handoff([{"type": "input_text", "text": '{"assistant": "Sales"}'}]), []),
        (handoff("Transferred."), []),
        (
            [posted("Sales"), *handoff('{"assistant": "Refunds"}')],
            [posted("Sales")["payload"], {"fromAgentId": "Sales", "toAgentId": "Refunds"}],
        ),
        ([posted("Sales"), *handoff('{"assistant": "Sales"}')], [posted("Sales")["payload"]]),
    ],
)
def test_switch_follows_from_the_result_of_a_handoff(records: list[Record], expected: list[Any]) -> None:
    assert switches(records) == expected
