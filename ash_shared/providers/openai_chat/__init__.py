"""OpenAI Chat Completions, and the same form written by gateways and other vendors.

Sources: the message, part and tool call unions of the `openai` package, and captured bodies of OpenAI, Azure,
OpenRouter, Groq, DeepSeek, Mistral, xAI, Cerebras and Gemini's compatible endpoint.
"""

from ash_shared.providers._kit.contract import Provider
from ash_shared.providers.openai_chat.content import read_block
from ash_shared.providers.openai_chat.messages import facts
from ash_shared.providers.openai_chat.recognition import PART_TYPES, recognizes
from ash_shared.providers.openai_chat.wire_types import wire_type

PROVIDER = Provider(
    source="openai_chat",
    recognizes=recognizes,
    marks=PART_TYPES | {"choices", "error", "messages", "role", "segments"},
    wire_type=wire_type,
    read_block=read_block,
    facts=facts,
)
