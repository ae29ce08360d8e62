"""A decoder of content that needs no translation, which checks blocks without building dicts."""

from collections.abc import Callable
from types import UnionType
from typing import Any, Literal, Union, get_args, get_origin

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType, defstruct
from pydantic import BaseModel

from ash_shared.model.blocks import CLASSES
from ash_shared.reading.json_text import shallow_json


def native_decoder(levels: int) -> Callable[[Raw], str | list[Any]]:
    """Return a decoder of a text, or of a list of native blocks whose keys are all fields of their class.

    It raises ValueError or RecursionError for other content, and for fields nested deeper than `levels`.
    """
    json = shallow_json(levels)
    blocks = [_struct(model, json, tag=name) for name, model in CLASSES.items()]
    block: Any = Union[tuple(blocks)]  # noqa: UP007  # built at run time
    return msgspec.json.Decoder(str | list[block]).decode


def _struct(model: type[BaseModel], json: Any, *, tag: str | None = None) -> type[Struct]:
    """Return a struct with the fields of a model; the literal `type` of a block is its tag.

    The `content` of a tool result is a text, because a list may need translation.
    """
    fields: list[Any] = []
    for name, field in model.model_fields.items():
        if get_origin(field.annotation) is Literal:
            continue
        field_type = str if name == "content" else _field_type(field.annotation, json)
        if field.is_required():
            fields.append((name, field_type, msgspec.field(name=field.alias)))
        else:
            fields.append((name, field_type | UnsetType, msgspec.field(default=UNSET, name=field.alias)))
    return defstruct(model.__name__, fields, tag=tag, kw_only=True, gc=False, forbid_unknown_fields=True)


def _field_type(annotation: Any, json: Any) -> Any:
    """Return the type of the values that a model's field accepts; `json` is the type of any JSON."""
    if annotation is Any:
        return json
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return _struct(annotation, json)
    origin = get_origin(annotation)
    if origin is None or origin is Literal:
        return annotation
    members = tuple(_field_type(member, json) for member in get_args(annotation))
    return Union[members] if origin in (Union, UnionType) else origin[members]  # noqa: UP007
