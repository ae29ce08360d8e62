"""Build the content objects of valid blocks."""

from pydantic import ConfigDict, TypeAdapter

from ash_shared.model.blocks import Block
from ash_shared.model.content import MessageContent

_adapter = TypeAdapter(list[MessageContent], config=ConfigDict(defer_build=True))


def typed_blocks(blocks: list[Block]) -> list[MessageContent]:
    """Return the content objects of blocks. Raises ValidationError if a block is not valid.

    Only JSON names are accepted: `mime_type` in a block is an unknown key.
    """
    # Without the method of the adapter, which checks and passes eight options.
    content: list[MessageContent] = _adapter.validator.validate_python(blocks, by_alias=True, by_name=False)
    return content
