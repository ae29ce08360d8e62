"""Parse a message without storing it."""

from typing import Annotated, Any

import msgspec
from litestar import Controller, Request, post
from litestar.datastructures import State
from msgspec import Meta, Struct

from ash_server.api.http.bodies import BODY_ERRORS, JSON, check_size, decode_body, read_body
from ash_server.api.http.guards.access import needs
from ash_server.api.http.openapi.operations import documents
from ash_server.api.http.problems import COMMON_ERRORS, KEY_ERRORS, error_responses
from ash_server.errors import MessageTooLarge, OriginNotAllowed
from ash_server.offload import offload
from ash_server.store.prepare import Source
from ash_shared.model.message import ParsedMessage
from ash_shared.parsing.parse import parse_message


class ParseRequest(Struct, forbid_unknown_fields=True):
    """A message to parse."""

    content: Annotated[str, Meta(description="Any text: a line of a transcript, an API message, plain text.")]
    source: Source | None = None


_decoder = msgspec.json.Decoder(ParseRequest)


class ParseController(Controller):
    path = "/api/parse"
    tags = ("parse",)

    @post(
        opt=needs("read") | documents(body={JSON: ParseRequest}),
        status_code=200,
        operation_id="parse",
        response_description="The parsed message.",
        responses=error_responses(
            *COMMON_ERRORS, *KEY_ERRORS, *BODY_ERRORS, MessageTooLarge, OriginNotAllowed
        ),
    )
    async def parse(self, request: Request[Any, Any, Any], state: State) -> ParsedMessage:
        """Parse a message into typed blocks.

        A playground that shows how Ash parses a text. Nothing is stored, and every text is accepted: text that
        is not JSON becomes a `text` block, and unknown content becomes a `raw` block.
        """
        body = await read_body(request, JSON)
        message = decode_body(body.text, _decoder)
        check_size(message.content, state.settings)
        return await offload(lambda text: parse_message(text.content, text.source), message)
