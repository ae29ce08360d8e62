"""The reference of the REST API, from openapi/openapi.json: a page for each tag, and one with the schemas."""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from tools.site.pages import ROOT, Section, write

DOCUMENT = ROOT / "openapi" / "openapi.json"
METHODS = ("get", "post", "put", "patch", "delete")
MAX_EXAMPLE = 1500
"""Characters of an example; longer ones are left out."""

Json = Mapping[str, Any]


def write_rest_reference(folder: Path, document: Path = DOCUMENT) -> list[Section]:
    """Write the pages, and return their section of the index page."""
    api = json.loads(document.read_text(encoding="utf-8"))
    place = folder / "reference" / "rest"
    tags = [tag["name"] for tag in api["tags"]]
    for tag in tags:
        write(place / f"{tag}.md", "\n\n".join(tag_page(api, tag)) + "\n")
    write(place / "schemas.md", "\n\n".join(schemas_page(api)) + "\n")
    write(place / "index.md", index_page(api, tags))
    return [("REST reference", [f"reference/rest/{page}.md" for page in ("index", *tags, "schemas")])]


def index_page(api: Json, tags: list[str]) -> str:
    routes = [
        f"| `{method.upper()} {path}` | [{operation['summary']}]({tag}.md#{anchor(operation['summary'])}) |"
        for tag in tags
        for path, method, operation in operations(api, tag)
    ]
    table = "\n".join(["| route | |", "|---|---|", *routes])
    return f"# REST reference\n\n{api['info']['description']}\n\n## Routes\n\n{table}\n"


def operations(api: Json, tag: str) -> Iterator[tuple[str, str, Json]]:
    for path, methods in api["paths"].items():
        for method in METHODS:
            if tag in methods.get(method, {}).get("tags", []):
                yield path, method, methods[method]


def tag_page(api: Json, tag: str) -> Iterator[str]:
    yield f"# {tag.capitalize()}"
    yield from (each["description"] for each in api["tags"] if each["name"] == tag and "description" in each)
    for path, method, operation in operations(api, tag):
        yield f"## {operation['summary']}"
        yield f"```http\n{method.upper()} {path}\n```"
        if "description" in operation:
            yield operation["description"]
        yield from parameters(operation)
        yield from request_body(operation)
        yield from responses(operation)


def parameters(operation: Json) -> Iterator[str]:
    rows = [
        f"| `{each['name']}` | {each['in']}{', required' if each.get('required') else ''} "
        f"| {type_of(each['schema'])} | {cell(each.get('description', ''))} |"
        for each in operation.get("parameters", [])
    ]
    if rows:
        yield "\n".join(["| parameter | in | type | |", "|---|---|---|---|", *rows])


def request_body(operation: Json) -> Iterator[str]:
    body = operation.get("requestBody")
    if body:
        rows = [
            f"| `{media}` | {type_of(each.get('schema', {}))} |" for media, each in body["content"].items()
        ]
        yield "\n".join(["| body | type |", "|---|---|", *rows])
        yield from examples(body["content"])


def responses(operation: Json) -> Iterator[str]:
    rows = []
    for status, response in sorted(operation["responses"].items()):
        content = response.get("content", {})
        types = {type_of(each.get("schema", {})) for each in content.values()}
        media = ", ".join(f"`{each}`" for each in content)
        rows.append(
            f"| {status} | {media} | {', '.join(sorted(types))} | {cell(response.get('description', ''))} |"
        )
    yield "\n".join(["| status | content | type | |", "|---|---|---|---|", *rows])
    for status, response in sorted(operation["responses"].items()):
        if status.startswith("2"):
            yield from examples(response.get("content", {}))


def examples(content: Json) -> Iterator[str]:
    for media, each in content.items():
        for example in each.get("examples", {}).values():
            value = example.get("value")
            text = value if isinstance(value, str) else json.dumps(value, indent=2, ensure_ascii=False)
            if len(text) <= MAX_EXAMPLE:
                language = "json" if media.endswith("json") else "text"
                yield f"`````{language}\n{text.rstrip()}\n`````"


def schemas_page(api: Json) -> Iterator[str]:
    yield "# Schemas"
    yield "The types of bodies and answers. Keys without “required” may be absent."
    for name, schema in sorted(api["components"]["schemas"].items()):
        yield f"## {name}"
        if "description" in schema:
            yield schema["description"]
        if "properties" in schema:
            yield properties(schema)
        else:
            yield type_of(schema, "")
        yield from (
            f"`````json\n{json.dumps(example, indent=2, ensure_ascii=False)}\n`````"
            for example in schema.get("examples", [])
        )


def properties(schema: Json) -> str:
    required = schema.get("required", [])
    rows = [
        f"| `{name}` | {type_of(each, '')}{', required' if name in required else ''} "
        f"| {cell(each.get('description', ''))} |"
        for name, each in schema["properties"].items()
    ]
    return "\n".join(["| key | type | |", "|---|---|---|", *rows])


def type_of(schema: Any, page: str = "schemas.md") -> str:
    """Return the type in words, with links to the schemas on `page`."""
    schema = schema if isinstance(schema, dict) else {}
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        return f"[{name}]({page}#{anchor(name)})"
    choices = schema.get("oneOf") or schema.get("anyOf")
    if choices:
        return " or ".join(dict.fromkeys(type_of(each, page) for each in choices))
    if "const" in schema or "enum" in schema:
        return ", ".join(f"`{json.dumps(each)}`" for each in schema.get("enum", [schema.get("const")]))
    for key, words in (("items", "list of"), ("additionalProperties", "object of")):
        if isinstance(schema.get(key), dict):
            return f"{words} {type_of(schema[key], page)}"
    types = schema.get("type", "any")
    return (types if isinstance(types, str) else " or ".join(types)) + format_of(schema)


def format_of(schema: Json) -> str:
    return f" ({schema['format']})" if schema.get("format") not in {None, "int64"} else ""


def cell(text: str) -> str:
    """Return a text for a cell of a table."""
    return " ".join(text.split()).replace("|", "\\|")


def anchor(heading: str) -> str:
    return "".join(each for each in heading.lower().replace(" ", "-") if each.isalnum() or each in "-_")
