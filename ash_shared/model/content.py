"""The typed blocks that every parsed message is a list of.

A block in this vocabulary keeps every key it came with, in place. A block translated from another vocabulary names
the wire's discriminator in `source_type` and keeps what the translation did not consume, verbatim, under `extra`.
Optional keys that are absent on the wire are absent here too (`pydantic.MISSING`), and a null stays a null.
"""

from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field
from typing_extensions import TypeAliasType

from ash_shared.model.base import ABSENT, AshModel

RawReason = Literal[
    "unknown_type", "malformed", "control", "opaque", "stream_fragment", "invalid_json", "limit"
]


class _Block(AshModel):
    model_config = ConfigDict(extra="allow", strict=True)

    source_type: str | None = ABSENT
    """The wire's name of a block that was translated, e.g. `document`."""
    extra: dict[str, Any] | None = ABSENT
    """What a translation did not consume, verbatim."""


class TextContent(_Block):
    """Text, as a person or a model wrote it."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"type": "text", "text": "All tests pass now."}]}
    )

    type: Literal["text"] = "text"
    text: str
    citations: list[Any] | None = ABSENT
    """Sources of the text, in the vendor's own form."""
    variant: str | None = ABSENT
    """What kind of text, where it is not plain speech: refusal, summary, plan, result, notice, error, transcript."""


class ThinkingContent(_Block):
    """Reasoning that the model showed, or a mark that it reasoned."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {"type": "thinking", "thinking": "The test fails on Windows only.", "signature": "Eq8B…"}
            ]
        }
    )

    type: Literal["thinking"] = "thinking"
    thinking: str
    """Empty where only a signature or an encrypted form was given."""
    signature: str | None = ABSENT
    """Proves to the vendor that the text is its own; needed to continue a conversation there."""
    redacted: bool | None = ABSENT
    """True where the vendor withheld the text; `data` then holds its encrypted form."""
    data: str | None = ABSENT
    """The opaque form of withheld reasoning."""
    is_summary: bool | None = ABSENT
    """True where the text is the vendor's summary of the reasoning."""


class ToolUseContent(_Block):
    """A call of a tool."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {"type": "tool_use", "id": "toolu_01", "name": "Bash", "input": {"command": "pytest -q"}}
            ]
        }
    )

    type: Literal["tool_use"] = "tool_use"
    id: str | None = ABSENT
    """Links the result to the call. Absent or null where the wire has none: ids are never made up."""
    name: str
    input: Any
    """The arguments, any JSON; the text itself where they came as text that is not JSON."""
    executor: str | None = ABSENT
    """Who runs the tool: server, mcp or agent. Absent means the client."""
    server_name: str | None = ABSENT
    """The MCP server that offers the tool."""
    status: str | None = ABSENT


class ToolResultContent(_Block):
    """What a tool answered."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {"type": "tool_result", "tool_use_id": "toolu_01", "content": "2 passed", "is_error": False}
            ]
        }
    )

    type: Literal["tool_result"] = "tool_result"
    tool_use_id: str | None = ABSENT
    """The `id` of the call; absent or null where the wire has none."""
    # Annotated Any: a recursive union makes pydantic drop the discriminator from the OpenAPI document.
    content: Any = ABSENT
    """A string as it was written, or a list of blocks of this same vocabulary, or other JSON as it was written."""
    is_error: bool | None = ABSENT
    structured: Any = ABSENT
    """The machine-readable form of the answer, where the block carries one beside the text."""
    exit_code: int | None = ABSENT


class BlockSource(AshModel):
    """Where the bytes of an image or a file are: inline, at an address, or in a vendor's file store."""

    model_config = ConfigDict(extra="allow", strict=True)

    type: str
    """`base64`, `url`, `file`, `text`, or whatever the vendor wrote."""
    media_type: str | None = ABSENT
    """As the vendor declared it: not checked against the bytes."""
    data: str | None = ABSENT
    url: str | None = ABSENT
    file_id: str | None = ABSENT


class ImageContent(_Block):
    """A picture. Its bytes are as the wire had them, and nothing is fetched."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "type": "image",
                    "source": {"type": "base64", "media_type": "image/png", "data": "iVBORw0KGgo="},
                }
            ]
        }
    )

    type: Literal["image"] = "image"
    source: BlockSource
    detail: str | None = ABSENT


class FileContent(_Block):
    """A document, a recording or any other file that is part of the conversation."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "type": "file",
                    "title": "Release notes",
                    "source": {"type": "text", "media_type": "text/plain", "data": "1.2: fixes the export."},
                    "mediaClass": "document",
                    "source_type": "document",
                }
            ]
        }
    )

    type: Literal["file"] = "file"
    filename: str | None = ABSENT
    """A name given by a stranger: data to show, never a path to open."""
    mime_type: str | None = Field(default=ABSENT, alias="mimeType")
    size: int | None = ABSENT
    """In bytes."""
    storage_path: str | None = Field(default=ABSENT, alias="storagePath")
    source: BlockSource | None = ABSENT
    title: str | None = ABSENT
    context: str | None = ABSENT
    media_class: str | None = Field(default=ABSENT, alias="mediaClass")
    """document, audio, video or other."""


class RawContent(_Block):
    """What Ash has no typed form for, whole."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "type": "raw",
                    "rawType": "holo_frame",
                    "reason": "unknown_type",
                    "raw": {"type": "holo_frame", "frame": 7},
                }
            ]
        }
    )

    type: Literal["raw"] = "raw"
    raw_type: str | None = Field(default=ABSENT, alias="rawType")
    """The wire's discriminator, where it has one."""
    reason: RawReason | None = ABSENT
    """Why it is raw. `unknown_type`: nobody has seen it; `malformed`: a known type with a missing or wrong field;
    `control`: known, and deliberately not typed; `opaque`: meant for the vendor only; `stream_fragment`: a piece of
    a streamed answer; `invalid_json`: text that begins as JSON and does not decode; `limit`: nested deeper than 200,
    more than 10,000 blocks, or a number that decoders refuse."""
    raw: Any
    """The JSON value as it was written, or the text itself where it does not decode."""


MessageContent = TypeAliasType(
    "MessageContent",
    Annotated[
        TextContent
        | ThinkingContent
        | ToolUseContent
        | ToolResultContent
        | ImageContent
        | FileContent
        | RawContent,
        Field(discriminator="type", description="One typed block, told apart by `type`."),
    ],
)
