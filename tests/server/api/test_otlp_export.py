"""A session exported as OTLP/JSON is accepted by OpenTelemetry's own parser, and by Ash as the same conversation."""

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from google.protobuf.json_format import ParseDict
from httpx2 import AsyncClient
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

import ash_server
from ash_server.api.telemetry.bodies import with_binary_ids

SAMPLES = {
    path.stem: path.read_bytes()
    for path in sorted((Path(ash_server.__file__).parent / "samples").glob("*.jsonl"))
}
NDJSON = {"Content-Type": "application/x-ndjson"}

Json = dict[str, Any]


async def contents(client: AsyncClient, session: str) -> tuple[list[Any], Counter[str]]:
    """Return the blocks of a session, in order, and the sums of its usage."""
    read = await client.get(f"{session}/standard-messages", params={"limit": 1000})
    usage = Counter[str]()
    blocks = []
    for message in filter(is_exported, read.json()["messages"]):
        counts = message.get("usage", {})
        usage.update({name: count for name, count in counts.items() if name.endswith("_tokens") and count})
        blocks += [block for each in message["content"] if (block := content(message["role"], each))]
    return blocks, usage


def is_exported(message: Json) -> bool:
    """False for duplicates, retracted messages, notices of the client and messages of subagents."""
    metadata = message["metadata"]
    is_notice = message["role"] == "assistant" and "synthetic" in metadata
    return not is_notice and not metadata.keys() & {"shadowOf", "retracted", "agentId", "parentToolUseId"}


def content(role: str, block: Json) -> Any:
    match block["type"]:
        case "text" if "variant" not in block:
            return role, block["text"]
        case "thinking" if block["thinking"]:
            return "thinking", block["thinking"]
        case "tool_use":
            is_at_provider = block.get("executor") == "server" and "arguments" in block["input"]
            input = block["input"]["arguments"] if is_at_provider else block["input"]
            return "call", block["id"], block["name"], input
        case "tool_result":
            return "result", block["tool_use_id"], text_of(block), bool(block.get("is_error"))
    return None


def text_of(block: Json) -> Any:
    parts = block.get("content", block.get("structured"))
    if isinstance(parts, dict):  # of a tool at the provider
        parts = parts["result"]
    if not isinstance(parts, list):
        return parts
    texts = [each["text"] for each in parts if "text" in each]
    return "\n".join(texts) if len(texts) == len(parts) else json.dumps(parts, separators=(",", ":"))


@pytest.mark.parametrize("sample", SAMPLES)
async def test_ash_reads_its_own_export_as_the_same_conversation(
    client: AsyncClient, session: str, sample: str
) -> None:
    await client.post(f"{session}/messages", content=SAMPLES[sample], headers=NDJSON)
    id = session.rpartition("/")[2]

    exported = (await client.get(f"{session}/projections/otlp")).content
    received = await client.post("/v1/traces", content=exported, headers={"Content-Type": "application/json"})

    assert (received.status_code, received.json()) == (200, {})
    found = await client.get("/api/sessions", params={"source": "otel", "externalId": f"conversation:{id}"})
    [copy] = found.json()["sessions"]
    assert await contents(client, f"/api/sessions/{copy['id']}") == await contents(client, session)


async def test_the_parser_of_opentelemetry_accepts_the_export(client: AsyncClient, session: str) -> None:
    for sample in SAMPLES.values():
        await client.post(f"{session}/messages", content=sample, headers=NDJSON)

    exported = (await client.get(f"{session}/projections/otlp")).content
    parsed = ParseDict(with_binary_ids(json.loads(exported)), ExportTraceServiceRequest())

    [resource] = parsed.resource_spans
    spans = resource.scope_spans[0].spans
    ids = {span.span_id for span in spans}
    assert len(ids) == len(spans) > 20
    assert {(len(span.trace_id), len(span.span_id)) for span in spans} == {(16, 8)}
    assert all(0 < span.start_time_unix_nano <= span.end_time_unix_nano for span in spans)
    assert {span.parent_span_id for span in spans} - ids == {b""}
    assert (await client.get(f"{session}/projections/otlp")).content == exported
