"""Parsing a message without storing it."""

from typing import Annotated, Any

import msgspec
from litestar import Controller, Request, post
from litestar.datastructures import State
from msgspec import Meta, Struct

from ash_server.api.http.bodies import BODY_ERRORS, JSON, check_size, decode_body, read_body
from ash_server.api.http.guards.access import needs
from ash_server.api.http.openapi.operations import json_of, operation
from ash_server.api.http.problems import COMMON_ERRORS, KEY_ERRORS, error_responses
from ash_server.errors import MessageTooLarge, OriginNotAllowed
from ash_server.offload import offload
from ash_server.store.prepare import Source
from ash_shared.model.message import ParsedMessage
from ash_shared.parsing.parse import parse_message

_CLAUDE_LINE = (
    '{"type":"assistant","message":{"role":"assistant","content":['
    '{"type":"thinking","thinking":"The failing test is the Windows one.","signature":"Eq8B"},'
    '{"type":"text","text":"Let me look at the test."},'
    '{"type":"tool_use","id":"toolu_01","name":"Read","input":{"file_path":"tests/test_paths.py"}}]}}'
)


class ParseRequest(Struct, forbid_unknown_fields=True):
    """A message to parse."""

    content: Annotated[str, Meta(description="Any text: a line of a transcript, an API message, plain text.")]
    source: Source | None = None


_decoder = msgspec.json.Decoder(ParseRequest)


class ParseController(Controller):
    path = "/api/parse"
    tags = ("parse",)

    @post(
        opt=needs("read"),
        status_code=200,
        operation_id="parse",
        summary="Parse a message into typed blocks",
        description="Playground: shows how Ash parses a text. Nothing is stored, and every text is accepted: text "
        "that is not JSON becomes a `text` block, unknown content a `raw` block.",
        response_description="The parsed message.",
        responses=error_responses(
            *COMMON_ERRORS, *KEY_ERRORS, *BODY_ERRORS, MessageTooLarge, OriginNotAllowed
        ),
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
    async def parse(self, request: Request[Any, Any, Any], state: State) -> ParsedMessage:
        body = await read_body(request, JSON)
        message = decode_body(body.text, _decoder)
        check_size(message.content, state.settings)
        return await offload(lambda text: parse_message(text.content, text.source), message)
