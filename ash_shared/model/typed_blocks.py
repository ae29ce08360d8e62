"""Build the content objects of valid blocks."""

from pydantic import ConfigDict, TypeAdapter

from ash_shared.model.blocks import Block
from ash_shared.model.content import MessageContent

_validate = TypeAdapter(list[MessageContent], config=ConfigDict(defer_build=True)).validate_python


def typed_blocks(blocks: list[Block]) -> list[MessageContent]:
    """Return the content objects of blocks. Raises ValidationError if a block is not valid.

    Only JSON names are accepted: `mime_type` in a block is an unknown key.
    """
    return _validate(blocks, by_alias=True, by_name=False)
