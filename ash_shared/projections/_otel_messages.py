"""The messages of the models in the terms of OpenTelemetry's GenAI conventions."""

import re
from base64 import b64encode
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any, Generic, Protocol, TypeVar

from ash_shared.model.blocks import Block
from ash_shared.model.message import StandardMessage, StandardTokenUsage
from ash_shared.projections._otel_terms import UNKNOWN, finish_reason, provider_name

OtelAttributes = dict[str, Any]
_Part = dict[str, Any]

MAX_TOOLS = 500_000
"""Calls of tools that the provider runs; a result of an earlier call is one of the client."""

_DATA_URL = re.compile(r"data:([^;,]*);base64,(.*)", re.DOTALL)


@dataclass(slots=True, eq=False)
class ChatMessage:
    role: str
    parts: list[_Part]
    sources: list[StandardMessage]
    """The standard messages; an answer may have several."""
    blocks: list[Block] = field(default_factory=list)
    """The blocks of results."""
    size: int = 0
    """The size of its standard messages."""

    def is_continued_by(self, message: StandardMessage) -> bool:
        """True for another message of the same response; usage is in its last one."""
        last = self.sources[-1]
        if self.role != "assistant" or last.usage is not None:
            return False
        known, other = last.metadata, message.metadata
        return (known.message_id, known.model) == (other.message_id, other.model)


class OtelConversation:
    """Folds standard messages into those that the model receives and returns.

    `is_whole`: with the messages before a summary, and with answers that have only usage or an error.
    """

    def __init__(self, *, is_whole: bool = False) -> None:
        self._is_whole = is_whole
        self.instructions: list[_Part] = []
        self.instructions_size = 0
        """The size of the standard messages with instructions."""
        self.messages: list[ChatMessage] = []
        self.summaries = 0
        """How often a summary has replaced the messages."""
        self._tools_at_provider = OrderedDict[Any, str]()
        """Names of tools that the provider runs, by the id of the call."""

    def add(self, message: StandardMessage, size: int = 0) -> None:
        blocks = [block.model_dump() for block in message.content]
        self._add_tools(blocks)
        if message.role == "system":
            self._add_instructions(message, [block for block in blocks if not _is_notice(block)], size)
            return
        if (
            not self._is_whole
            and message.role == "user"
            and any(block.get("variant") == "summary" for block in blocks)
        ):
            self.messages.clear()
            self.summaries += 1
        self._add_turns(message, blocks)
        if self.messages:
            self.messages[-1].size += size

    def take(self) -> list[ChatMessage]:
        """Return and forget the messages that later ones do not change: all but the last."""
        taken, self.messages[:-1] = self.messages[:-1], []
        return taken

    def _add_tools(self, blocks: Iterable[Block]) -> None:
        self._tools_at_provider.update(
            (block.get("id"), block["name"]) for block in blocks if _is_call_at_provider(block)
        )
        while len(self._tools_at_provider) > MAX_TOOLS:
            self._tools_at_provider.popitem(last=False)

    def _add_turns(self, message: StandardMessage, blocks: Iterable[Block]) -> None:
        groups = [
            (is_result, [*group]) for is_result, group in groupby(blocks, key=self._is_result_of_client)
        ]
        for is_result, group in groups or [(False, [])]:
            parts = self._parts(group)
            if message.role == "assistant" and not is_result:
                self._add_answer(message, parts)
            elif parts:
                role = "tool" if is_result else "user"
                self.messages.append(ChatMessage(role, parts, [message], group))

    def _add_instructions(self, message: StandardMessage, blocks: list[Block], size: int) -> None:
        parts = self._parts(blocks)
        if parts and _has_role(message.original):
            self.messages.append(ChatMessage("system", parts, [message], size=size))
        elif parts:
            self.instructions += parts
            self.instructions_size += size

    def _add_answer(self, message: StandardMessage, parts: list[_Part]) -> None:
        last = self.messages[-1] if self.messages else None
        if last is not None and last.is_continued_by(message):
            last.parts += parts
            last.sources.append(message)
        elif parts or (self._is_whole and (message.usage is not None or message.error is not None)):
            self.messages.append(ChatMessage("assistant", parts, [message]))

    def _is_result_of_client(self, block: Block) -> bool:
        return block["type"] == "tool_result" and block.get("tool_use_id") not in self._tools_at_provider

    def _parts(self, blocks: Iterable[Block]) -> list[_Part]:
        parts = (_PARTS[block["type"]](block, self._tools_at_provider) for block in blocks)
        return [{name: value for name, value in part.items() if value is not None} for part in parts if part]


def _is_call_at_provider(block: Block) -> bool:
    return block["type"] == "tool_use" and block.get("executor") == "server"


def _is_notice(block: Block) -> bool:
    """True for a notice of the client for the person."""
    return block.get("variant") is not None


class SizedFold(Protocol):
    """Folds messages, in order, and keeps some."""

    def add(self, message: StandardMessage, size: int = 0) -> None: ...

    def size(self) -> int:
        """Return the size of the messages that are kept."""


F = TypeVar("F", bound=SizedFold)


class MainAgentFolds(Generic[F]):
    """The fold of a session's main agent. In the session of a subagent, this is the subagent."""

    def __init__(self, create: Callable[[], F]) -> None:
        self._main = create()
        self._with_subagents: F | None = create()
        """In a session of a subagent; None after the first other message."""

    def add(self, message: StandardMessage, size: int = 0) -> None:
        """Add a message, unless it is a duplicate, retracted, a notice of the client, or of a subagent."""
        if not is_kept(message):
            return
        if not is_of_subagent(message):
            self._with_subagents = None
            self._main.add(message, size)
        elif self._with_subagents is not None:
            self._with_subagents.add(message, size)

    def size(self) -> int:
        """Return the size of the messages that are kept."""
        return self.used.size()

    @property
    def used(self) -> F:
        return self._main if self._with_subagents is None else self._with_subagents

    @property
    def is_of_subagent(self) -> bool:
        """True if all messages so far are a subagent's."""
        return self._with_subagents is not None


def is_included(message: StandardMessage, *, in_subagent: bool) -> bool:
    """True for a message of the agent of the session; `in_subagent`: all its messages are a subagent's."""
    return is_kept(message) and (in_subagent or not is_of_subagent(message))


def is_kept(message: StandardMessage) -> bool:
    """False for duplicates, retracted messages, and notices of the client."""
    metadata = message.metadata
    is_notice = message.role == "assistant" and bool(metadata.synthetic)
    return metadata.shadow_of is None and not metadata.retracted and not is_notice


def is_of_subagent(message: StandardMessage) -> bool:
    return message.metadata.agent_id is not None or message.metadata.parent_tool_use_id is not None


def _has_role(original: Any) -> bool:
    """True for a message of the chat history; a field of the request for instructions has none."""
    if isinstance(original, list):
        return any(map(_has_role, original))
    return isinstance(original, dict) and ("role" in original or _has_role(original.get("payload")))


def answer_attributes(answer: ChatMessage, requests: list[Any]) -> OtelAttributes:
    last = answer.sources[-1].metadata
    named = [*answer.sources[-1].original, *(requests if last.source == "codex" else ())]
    # A record with the id of a response has its model; other records have the requested model.
    model = "gen_ai.request.model" if last.message_id is None else "gen_ai.response.model"
    return {
        "gen_ai.provider.name": provider_name(last.source, named),
        model: last.model,
        "gen_ai.response.id": last.message_id,
        "gen_ai.response.finish_reasons": None
        if last.stop_reason is None
        else [finish_reason(last.stop_reason)],
        **_usage(answer.sources[-1].usage),
    }


def _usage(usage: StandardTokenUsage | None) -> OtelAttributes:
    """Return the token counts; input includes tokens read from or written to a cache."""
    if usage is None:
        return {}
    read, written = usage.cache_read_input_tokens, usage.cache_creation_input_tokens
    return {
        "gen_ai.usage.input_tokens": usage.input_tokens + (read or 0) + (written or 0),
        "gen_ai.usage.output_tokens": usage.output_tokens,
        "gen_ai.usage.cache_read.input_tokens": read,
        "gen_ai.usage.cache_creation.input_tokens": written,
        "gen_ai.usage.reasoning.output_tokens": usage.reasoning_tokens,
    }


def output_message(answer: ChatMessage) -> OtelAttributes:
    """Return the output message. Earlier versions of the conventions require a reason."""
    reason = answer.sources[-1].metadata.stop_reason
    finished = UNKNOWN if reason is None else finish_reason(reason)
    return {"role": answer.role, "parts": answer.parts, "finish_reason": finished}


_Tools = Mapping[Any, str]


def _text(block: Block, _: _Tools) -> _Part:
    return {"type": "compaction" if block.get("variant") == "summary" else "text", "content": block["text"]}


def _reasoning(block: Block, _: _Tools) -> _Part | None:
    """Return the reasoning; None if the provider withheld it."""
    return {"type": "reasoning", "content": block["thinking"]} if block["thinking"] else None


def _call(block: Block, _: _Tools) -> _Part:
    id, name, arguments = block.get("id"), block["name"], block["input"]
    if block.get("executor") == "server":
        call = {"type": name, "arguments": arguments}
        return {"type": "server_tool_call", "id": id, "name": name, "server_tool_call": call}
    return {"type": "tool_call", "id": id, "name": name, "arguments": arguments}


def _response(block: Block, at_provider: _Tools) -> _Part:
    id, content = block.get("tool_use_id"), block.get("content", block.get("structured"))
    if id in at_provider:
        response = {"type": at_provider[id], "result": content}
        return {"type": "server_tool_call_response", "id": id, "server_tool_call_response": response}
    return {"type": "tool_call_response", "id": id, "response": "" if content is None else content}


def _media(block: Block, _: _Tools) -> _Part:
    source = block.get("source") or {}
    media_type = source.get("media_type") or block.get("mimeType")
    modality = "image" if block["type"] == "image" else block.get("mediaClass") or "other"
    common = {"mime_type": media_type, "modality": modality, "transcript": block.get("transcript")}
    url, data, file_id = (source.get(name) for name in ("url", "data", "file_id"))
    inline = _DATA_URL.fullmatch(url) if isinstance(url, str) else None
    if inline:
        return {"type": "blob", **common, "mime_type": inline[1] or media_type, "content": inline[2]}
    if isinstance(url, str):
        return {"type": "uri", **common, "uri": url}
    if isinstance(data, str):
        encoded = data if source.get("type") != "text" else b64encode(data.encode()).decode()
        return {"type": "blob", **common, "content": encoded}
    if isinstance(file_id, str):
        return {"type": "file", **common, "file_id": file_id}
    return {"type": "attachment", **common, "name": block.get("filename"), "source": source or None}


def _raw(block: Block, _: _Tools) -> _Part:
    return {"type": "raw", "raw_type": block.get("rawType"), "content": block["raw"]}


_PARTS: Mapping[str, Callable[[Block, _Tools], _Part | None]] = {
    "file": _media,
    "image": _media,
    "raw": _raw,
    "text": _text,
    "thinking": _reasoning,
    "tool_result": _response,
    "tool_use": _call,
}
