"""OpenAI Responses: complete responses, requests, bare items and stream events.

Sources: the stream event union of the `openai` package, and captured bodies of OpenAI, Azure, xAI, LM Studio
and GitHub Copilot. Items are read by `_kit.responses_items`.
"""

from ash_shared.providers._kit.contract import Provider
from ash_shared.providers._kit.responses_items import read_block
from ash_shared.providers.openai_responses.messages import facts
from ash_shared.providers.openai_responses.wire_types import MARKS, recognizes, wire_type

PROVIDER = Provider(
    source="openai_responses",
    recognizes=recognizes,
    marks=MARKS,
    wire_type=wire_type,
    read_block=read_block,
    facts=facts,
)
