"""Reading a text without storing it."""

from typing import Annotated, Any

import msgspec
from litestar import Controller, Request, post
from litestar.datastructures import State
from msgspec import Meta, Struct

from ash_server.api.http.bodies import BODY_REFUSALS, JSON, check_size, decode_body, read_body
from ash_server.api.http.operations import json_of, operation
from ash_server.api.http.problems import ALWAYS, refusals
from ash_server.errors import MessageTooLarge, OriginNotAllowed
from ash_server.ingest import Source
from ash_server.offload import offload
from ash_shared.model.message import Reading
from ash_shared.reading.parse import read_message

_CLAUDE_LINE = (
    '{"type":"assistant","message":{"role":"assistant","content":['
    '{"type":"thinking","thinking":"The failing test is the Windows one.","signature":"Eq8B"},'
    '{"type":"text","text":"Let me look at the test."},'
    '{"type":"tool_use","id":"toolu_01","name":"Read","input":{"file_path":"tests/test_paths.py"}}]}}'
)


class ParseRequest(Struct, forbid_unknown_fields=True):
    """A text to read."""

    content: Annotated[
        str, Meta(description="Any text: a line of a transcript, an API message, plain words.")
    ]
    source: Source | None = None


_decoder = msgspec.json.Decoder(ParseRequest)


class ParseController(Controller):
    path = "/api/parse"
    tags = ("parse",)

    @post(
        status_code=200,
        operation_id="parse",
        summary="Read a text as typed blocks",
        description="The playground: what would Ash make of this text? Nothing is stored, and no text is refused: "
        "what is not JSON comes back as a `text` block, what is unknown as a `raw` block.",
        response_description="How the text reads.",
        responses=refusals(*ALWAYS, *BODY_REFUSALS, MessageTooLarge, OriginNotAllowed),
        operation_class=operation(
            body={
                JSON: json_of(
                    ParseRequest,
                    claude_line={"content": _CLAUDE_LINE},
                    plain_text={"content": "[INFO] the build has started"},
                    unknown_block={"content": '[{"type":"holo_frame","frame":7}]'},
                    broken_json={"content": '{"type":"assistant","message":{"content":[{"type":"te'},
                )
            }
        ),
    )
    async def parse(self, request: Request[Any, Any, Any], state: State) -> Reading:
        body = await read_body(request, JSON)
        asked = decode_body(body.text, _decoder)
        check_size(asked.content, state.settings)
        return await offload(lambda text: read_message(text.content, text.source), asked)
