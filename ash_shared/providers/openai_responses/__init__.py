"""OpenAI Responses: complete responses, requests, bare items and stream events.

Sources: the stream event union of the `openai` package, and captured bodies of OpenAI, Azure, xAI, LM Studio
and GitHub Copilot. Items are read by `_kit.responses_items`.
"""

from ash_shared.providers._kit.contract import Provider, WireType
from ash_shared.providers._kit.responses_items import read_block
from ash_shared.providers.openai_responses.messages import facts, parts
from ash_shared.providers.openai_responses.recognition import MARKS, recognizes
from ash_shared.providers.openai_responses.records import read
from ash_shared.providers.openai_responses.steps import steps

_WIRE_TYPE = WireType(read=read, parts=parts, steps=steps)

PROVIDER = Provider(
    source="openai_responses",
    recognizes=recognizes,
    marks=MARKS,
    wire_type=lambda record: _WIRE_TYPE,
    read_block=read_block,
    facts=facts,
)
