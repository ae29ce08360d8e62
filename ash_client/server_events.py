r"""Server-sent events. Lines end with `\n` only: texts in them may contain any other separator."""

from collections.abc import Iterator
from typing import NamedTuple

from pydantic_core import from_json

from ash_shared.model.events import ChatEvent, read_event


class ServerEvent(NamedTuple):
    """One server-sent event."""

    sequence: int | None
    """None for a control event of the stream, which is not in the log: `caught_up`, `closed`."""
    name: str
    data: str

    def read(self) -> ChatEvent:
        return read_event(from_json(self.data))


class ServerEventParser:
    """Parses the chunks of a stream; an incomplete event at its end is dropped."""

    def __init__(self) -> None:
        self._rest = b""
        self._fields: dict[str, str] = {}

    def feed(self, chunk: bytes) -> Iterator[ServerEvent]:
        *lines, self._rest = (self._rest + chunk).split(b"\n")
        for line in lines:
            if line:
                name, _, value = line.decode().partition(": ")
                self._fields[name] = value
                continue
            fields, self._fields = self._fields, {}
            if "data" in fields:
                id = fields.get("id")
                yield ServerEvent(int(id) if id else None, fields.get("event", "message"), fields["data"])
