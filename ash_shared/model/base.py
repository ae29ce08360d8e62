"""The base class of all models: optional fields that read as None and stay out of the JSON.

JSON tells an absent key from a null, and Ash keeps both as they are; Python has None for both. The value of an absent
field is pydantic's sentinel `MISSING`, which every pydantic serializer omits, also in nested models and TypeAdapters;
attribute access returns None for it. The alternatives are worse: a serializer in Python
(`model_serializer`) is several times slower, and `exclude_unset` works only for callers that pass it.
"""

import ast
import inspect
import textwrap
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, ClassVar, Self, TypeVar

from pydantic import (
    MISSING,
    BaseModel,
    ConfigDict,
    GetCoreSchemaHandler,
    GetJsonSchemaHandler,
    ValidationError,
)
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, InitErrorDetails, PydanticCustomError

T = TypeVar("T")

ABSENT: Any = MISSING
"""Default of an optional field: the attribute reads as None, and the key is absent from the JSON."""


class _NotNull:
    """Removes null from the values that a field accepts and from its JSON schema."""

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        schema = handler(source)
        return schema["schema"] if schema["type"] == "nullable" else schema


Omittable = Annotated[T | None, _NotNull()]
"""Type of an optional field: the key is absent or has a value, and null is invalid."""


class _AbsentAsNone:
    """Descriptor of an optional field: reads an absent value as None."""

    __slots__ = ("_name",)

    def __init__(self, name: str) -> None:
        self._name = name

    def __get__(self, instance: BaseModel | None, owner: type[BaseModel]) -> Any:
        if instance is None:
            raise AttributeError(self._name)  # as pydantic does for every field
        value = instance.__dict__[self._name]
        return None if value is MISSING else value

    def __set__(self, instance: BaseModel, value: Any) -> None:
        instance.__dict__[self._name] = value


class AshModel(BaseModel):
    """Base class of all models.

    Constructors accept snake_case and camelCase names. None for an `Omittable` field means absent. Unless the model
    keeps unknown keys (`extra="allow"`), an unknown keyword is an error; unknown keys of validated dicts are ignored.
    """

    model_config = ConfigDict(frozen=True, serialize_by_alias=True, validate_by_name=True, defer_build=True)

    _python_names: ClassVar[Mapping[str, str]] = {}
    """Field names by alias, for the fields that have one."""
    _field_names: ClassVar[frozenset[str]] = frozenset()
    _omittable: ClassVar[frozenset[str]] = frozenset()
    _allows_extra_keys: ClassVar[bool] = False
    """True if unknown keys are kept."""

    def __init__(self, /, **fields: Any) -> None:
        names, values = self._python_names, fields
        if not names.keys().isdisjoint(fields):
            values = {names.get(key, key): value for key, value in fields.items()}
        if len(values) < len(fields) or not (self._allows_extra_keys or values.keys() <= self._field_names):
            raise _keyword_errors(type(self), fields)
        for key in self._omittable & values.keys():
            if values[key] is None:
                del values[key]
        super().__init__(**values)

    # Tell pydantic that validators may set the fields directly, without this __init__.
    __init__.__pydantic_base_init__ = True  # type: ignore[attr-defined]

    @classmethod
    def __pydantic_init_subclass__(cls, **kwargs: Any) -> None:
        super().__pydantic_init_subclass__(**kwargs)
        fields = cls.model_fields.items()
        cls._python_names = {field.alias: name for name, field in fields if field.alias not in (None, name)}
        cls._field_names = frozenset(cls.model_fields)
        cls._allows_extra_keys = cls.model_config.get("extra") == "allow"
        cls._omittable = frozenset(name for name, field in fields if _is_omittable(field.metadata))
        for name, field in fields:
            if field.default is MISSING:
                setattr(cls, name, _AbsentAsNone(name))

    @classmethod
    def __get_pydantic_json_schema__(
        cls, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        """Describe fields by their docstrings; require constants such as `type`, with a default only in Python."""
        json_schema = handler(schema)
        model_schema = handler.resolve_ref_schema(json_schema)
        properties = model_schema.get("properties", {})
        for name, docstring in _attribute_docstrings(cls).items():
            key = name if name in properties else cls.model_fields[name].alias
            if key in properties:
                properties[key].setdefault("description", docstring)
        constants = {
            key
            for key, property_schema in properties.items()
            if "const" in property_schema and property_schema.pop("default", None) is not None
        }
        if constants:
            required = constants.union(model_schema.get("required", ()))
            model_schema["required"] = [key for key in properties if key in required]
        return json_schema

    def model_copy(self, *, update: Mapping[str, Any] | None = None, deep: bool = False) -> Self:
        """Return a copy with other values, which are not validated. None for an `Omittable` field removes it."""
        values = {
            key: ABSENT if value is None and key in self._omittable else value
            for key, value in (update or {}).items()
        }
        return super().model_copy(update=values, deep=deep)

    def __iter__(self) -> Iterator[tuple[str, Any]]:  # type: ignore[override]  # as BaseModel.__iter__ declares it
        for name, value in super().__iter__():
            yield name, None if value is MISSING else value

    def __repr_args__(self) -> Iterator[tuple[str | None, Any]]:
        return ((name, value) for name, value in super().__repr_args__() if value is not MISSING)


def _attribute_docstrings(model: type[BaseModel]) -> Mapping[str, str]:
    """Return the docstrings below the fields of a model, read from its source.

    pydantic can do this (`use_attribute_docstrings`), but reads the source of every model when it is imported.
    """
    docstrings: dict[str, str] = {}
    for base in reversed(model.__mro__):
        if base is not AshModel and issubclass(base, AshModel):
            body = _class_body(base)
            docstrings.update(pair for pair in map(_field_docstring, body, body[1:]) if pair)
    return {name: docstring for name, docstring in docstrings.items() if name in model.model_fields}


def _class_body(model: type) -> list[ast.stmt]:
    """Return the statements of a class; none if its source is not available, as for `ExecutionResponse[str]`."""
    try:
        module = ast.parse(textwrap.dedent(inspect.getsource(model)))
    except (OSError, TypeError):
        return []
    return module.body[0].body if isinstance(module.body[0], ast.ClassDef) else []


def _field_docstring(field: ast.stmt, docstring: ast.stmt) -> tuple[str, str] | None:
    if not (isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name)):
        return None
    if not (isinstance(docstring, ast.Expr) and isinstance(docstring.value, ast.Constant)):
        return None
    text = docstring.value.value
    return (field.target.id, inspect.cleandoc(text)) if isinstance(text, str) else None


def _is_omittable(metadata: list[Any]) -> bool:
    return any(isinstance(annotation, _NotNull) for annotation in metadata)


def _keyword_errors(model: type[AshModel], supplied: Mapping[str, Any]) -> ValidationError:
    """Return the error for all unknown keywords and all fields supplied under both of their names."""
    errors: list[InitErrorDetails] = []
    for key, value in supplied.items():
        name = model._python_names.get(key, key)
        if name != key and name in supplied:
            duplicate = PydanticCustomError("given_twice", "Supplied twice, also as {name}", {"name": name})
            errors.append(InitErrorDetails(type=duplicate, loc=(key,), input=value))
        elif name not in model._field_names and not model._allows_extra_keys:
            errors.append(InitErrorDetails(type="extra_forbidden", loc=(key,), input=value))
    return ValidationError.from_exception_data(model.__name__, errors)
