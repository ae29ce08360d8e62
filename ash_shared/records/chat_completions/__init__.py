"""Images and calls in messages of Chat Completions, which other programs store in formats of their own."""

from ash_shared.model.blocks import Block, pick, translated, with_extra, without
from ash_shared.records.contract import Record
from ash_shared.records.json_fields import input_at, url_source


def translate_image_url(part: Record) -> Block:
    source = url_source(part["image_url"]["url"])
    block = translated(part, {"type": "image", "source": source}, {"image_url"}, "image_url")
    return with_extra(block, without(part["image_url"], "url"))


def translate_tool_call(call: Record) -> Block:
    function = call["function"]
    arguments, consumed = input_at(function, "arguments")
    typed = {"type": "tool_use", **pick(call, "id"), "name": function["name"], "input": arguments}
    block = translated(call, typed, {"id", "function"}, "tool_call")
    return with_extra(block, without(function, "name", *consumed))
