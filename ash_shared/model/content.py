"""The typed content blocks of a parsed message.

A block that is already in this vocabulary keeps all its keys. A block translated from another vocabulary has the
original type in `source_type` and all untranslated keys, verbatim, under `extra`. Optional keys that are absent from
the input stay absent from the output and read as None; a null stays a null.
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
    """The original type of a translated block, e.g. `document`."""
    extra: dict[str, Any] | None = ABSENT
    """Keys of the original block that have no typed field, verbatim."""


def _example(**block: Any) -> ConfigDict:
    """Return the configuration of a block class with an example for the API document."""
    return ConfigDict(json_schema_extra={"examples": [block]})


class TextContent(_Block):
    """Text written by a person or a model."""

    model_config = _example(type="text", text="All tests pass now.")

    type: Literal["text"] = "text"
    text: str
    citations: list[Any] | None = ABSENT
    """Sources of the text, in the vendor's format."""
    variant: str | None = ABSENT
    """The kind of text, if not an ordinary message: refusal, summary, plan, result, notice, error, transcript."""


class ThinkingContent(_Block):
    """Reasoning of the model, or a placeholder for withheld reasoning."""

    model_config = _example(type="thinking", thinking="The test fails on Windows only.", signature="Eq8B…")

    type: Literal["thinking"] = "thinking"
    thinking: str
    """Empty if the input has only a signature or an encrypted form."""
    signature: str | None = ABSENT
    """The vendor's proof that it wrote the text, needed to continue the conversation there."""
    redacted: bool | None = ABSENT
    """True if the vendor withheld the text; `data` then has its encrypted form."""
    data: str | None = ABSENT
    """Encrypted reasoning."""
    is_summary: bool | None = ABSENT
    """True if the text is the vendor's summary of the reasoning."""


class ToolUseContent(_Block):
    """A tool call."""

    model_config = _example(type="tool_use", id="toolu_01", name="Bash", input={"command": "pytest -q"})

    type: Literal["tool_use"] = "tool_use"
    id: str | None = ABSENT
    """Links the result to the call. Absent or null if the input has no id: ids are never generated."""
    name: str = Field(min_length=1)
    """A block without a name is a `raw` block, not a call."""
    input: Any
    """The arguments, any JSON; a string if they are text that is not JSON."""
    executor: str | None = ABSENT
    """Where the tool runs: server, mcp or agent. Absent means the client; host means that the client also called it,
    without the model."""
    server_name: str | None = ABSENT
    """The MCP server that provides the tool."""
    status: str | None = ABSENT


class ToolResultContent(_Block):
    """The result of a tool call."""

    model_config = _example(type="tool_result", tool_use_id="toolu_01", content="2 passed", is_error=False)

    type: Literal["tool_result"] = "tool_result"
    tool_use_id: str | None = ABSENT
    """The `id` of the call; absent or null if the input has none."""
    # Annotated Any: a recursive union makes pydantic drop the discriminator from the OpenAPI document.
    content: Any = ABSENT
    """A string, a list of content blocks, or other JSON, unchanged."""
    is_error: bool | None = ABSENT
    structured: Any = ABSENT
    """The machine-readable form of the result, if the block has one in addition to the text."""
    exit_code: int | None = ABSENT


class BlockSource(AshModel):
    """The location of the bytes of an image or a file: inline, at a URL, or in a vendor's file store."""

    model_config = ConfigDict(extra="allow", strict=True)

    type: str
    """`base64`, `url`, `file`, `text`, or another value of the vendor."""
    media_type: str | None = ABSENT
    """As declared by the vendor, not checked against the bytes."""
    data: str | None = ABSENT
    url: str | None = ABSENT
    file_id: str | None = ABSENT


class ImageContent(_Block):
    """An image. Its bytes are unchanged; nothing is fetched."""

    model_config = _example(
        type="image", source={"type": "base64", "media_type": "image/png", "data": "iVBORw0KGgo="}
    )

    type: Literal["image"] = "image"
    source: BlockSource
    detail: str | None = ABSENT


class FileContent(_Block):
    """A document, a recording or another file in the conversation."""

    model_config = _example(
        type="file",
        title="Release notes",
        source={"type": "text", "media_type": "text/plain", "data": "1.2: fixes the export."},
        mediaClass="document",
        source_type="document",
    )

    type: Literal["file"] = "file"
    filename: str | None = ABSENT
    """Untrusted: for display only, never a path to open."""
    mime_type: str | None = Field(default=ABSENT, alias="mimeType")
    size: int | None = ABSENT
    """In bytes."""
    storage_path: str | None = Field(default=ABSENT, alias="storagePath")
    source: BlockSource | None = ABSENT
    title: str | None = ABSENT
    context: str | None = ABSENT
    media_class: str | None = Field(default=ABSENT, alias="mediaClass")
    """document, audio, video or other."""
    transcript: str | None = ABSENT
    """The words of a recording."""


class RawContent(_Block):
    """Content without a typed form, unchanged."""

    model_config = _example(
        type="raw", rawType="holo_frame", reason="unknown_type", raw={"type": "holo_frame", "frame": 7}
    )

    type: Literal["raw"] = "raw"
    raw_type: str | None = Field(default=ABSENT, alias="rawType")
    """The original type, if there is one."""
    reason: RawReason | None = ABSENT
    """Why the block is raw. `unknown_type`: the type is not known; `malformed`: a known type with a missing or wrong
    field; `control`: a known type that is deliberately not typed; `opaque`: for the vendor only; `stream_fragment`: a
    chunk of a streamed response; `invalid_json`: text that begins like JSON and does not decode; `limit`: nested deeper
    than 200, more than 10,000 blocks, or a number that decoders reject. Absent if the input itself is a raw block
    without a reason."""
    raw: Any
    """The JSON value, unchanged; the text itself if it does not decode."""


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
        Field(discriminator="type", description="A typed content block; `type` is the discriminator."),
    ],
)
