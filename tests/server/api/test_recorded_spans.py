"""Spans of libraries with their own instrumentation, recorded with a scripted model: a prompt, a call of a tool, its
result, an answer, and another prompt with an answer."""

import json
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from httpx2 import AsyncClient

from tests.server.api.test_otlp import PROTOBUF, to_protobuf

RECORDED = Path(__file__).parent / "recorded_spans"

CALL, RESULT = {"city": "Bergen"}, "Bergen: 9 °C"
QUESTION, ANSWER, THANKS, WELCOME = (
    "What is the weather in Bergen?",
    "It is 9 °C in Bergen.",
    "Thanks!",
    "You are welcome.",
)


class Recorded(NamedTuple):
    usage: list[tuple[int, int, int]]
    """Input without cached tokens, cached tokens and output of each answer."""
    system: str | None = "Be brief."
    result: str = RESULT


LIBRARIES = {
    "google_adk": Recorded(
        [(89, 40, 15), (90, 40, 15), (91, 40, 15)],
        system='Be brief.\n\nYou are an agent. Your internal name is "helper".',
        result='{"result": "Bergen: 9 °C"}',
    ),
    "langchain": Recorded([(70, 40, 12), (71, 40, 12), (72, 40, 12)]),
    "litellm": Recorded([(109, 40, 12), (110, 40, 12), (111, 40, 12)]),
    "openai_agents": Recorded([(66, 40, 12), (67, 40, 12), (68, 40, 12)], system=None),
    "openllmetry": Recorded([(74, 40, 12), (75, 40, 12), (76, 40, 12)]),
    "pydantic_ai": Recorded([(61, 40, 12), (62, 40, 12), (63, 40, 12)]),
}


async def send_recorded(client: AsyncClient, library: str) -> list[dict[str, Any]]:
    """Send the requests of a library; return the messages of their session."""
    for body in json.loads((RECORDED / f"{library}.json").read_text()):
        response = await client.post(
            "/v1/traces", content=to_protobuf(body), headers={"Content-Type": PROTOBUF}
        )
        assert response.status_code == 200
    (session,) = (await client.get("/api/sessions")).json()["sessions"]
    read = await client.get(f"/api/sessions/{session['id']}/standard-messages")
    return list(read.json()["messages"])


def content_of(message: dict[str, Any]) -> Any:
    block = message["content"][0]
    return block.get("text", block.get("input", block.get("content")))


def usage_of(messages: list[dict[str, Any]]) -> list[tuple[int, ...]]:
    counts = ("input_tokens", "cache_read_input_tokens", "output_tokens")
    return [tuple(each["usage"][count] for count in counts) for each in messages if "usage" in each]


@pytest.mark.parametrize("library", LIBRARIES)
async def test_a_conversation_is_read_completely_and_once(library: str, own_client: AsyncClient) -> None:
    recorded = LIBRARIES[library]

    messages = await send_recorded(own_client, library)

    assert [(each["role"], content_of(each)) for each in messages if each["role"] != "system"] == [
        ("user", QUESTION),
        ("assistant", CALL),
        ("user", recorded.result),
        ("assistant", ANSWER),
        ("user", THANKS),
        ("assistant", WELCOME),
    ]
    assert [content_of(each) for each in messages if each["role"] == "system"] == (
        [] if recorded.system is None else [recorded.system]
    )
    assert usage_of(messages) == recorded.usage
    models = {each["metadata"]["model"].removeprefix("openai/") for each in messages if "usage" in each}
    assert models == {"gpt-test"}


async def test_a_crew_is_read_completely_and_once(own_client: AsyncClient) -> None:
    messages = await send_recorded(own_client, "crewai")

    assert [each["role"] for each in messages] == ["system", "user", "assistant", "user", "assistant"]
    assert QUESTION in content_of(messages[1])
    assert [content_of(each) for each in messages[2:]] == [CALL, RESULT, ANSWER]
    assert usage_of(messages) == [(93, 40, 12), (94, 40, 12)]
