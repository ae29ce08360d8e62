"""Gemini's activity in Google Takeout: `My Activity/Gemini Apps/MyActivity.json`, one list of all prompts.

Source: readers of real exports; Google documents no format. An activity is a prompt with its answer as HTML. The newest
is the first, and none states its conversation, so an export is one session, in the order of the times.
"""

from collections.abc import Iterator
from typing import Any

from ash_shared.model.blocks import (
    Block,
    bounded,
    pick,
    raw_block,
    text_block,
    translate,
    translated,
    without,
)
from ash_shared.model.message import Identity, RecordHeader
from ash_shared.records.contract import Marks, ParsedRecord, Part, Provider, Record, Speaker, WireType
from ash_shared.records.documents import DocumentItem, UniqueKeys, document_type
from ash_shared.records.json_fields import (
    items_at,
    latest_time,
    listed,
    text_at,
    to_milliseconds,
    value_at,
)

_PROMPT = "Prompted "
_NOTICES = ("Created ", "Gave ", "Selected ", "Used ")
"""First words of activities that are not prompts, in English exports. In other languages, each is read as a prompt."""
_PRODUCTS = ("Bard", "Gemini")
_ENVELOPE = ("activityControls", "header", "products", "time", "title")
_FILES = ("attachedFiles", "audioFiles", "imageFile")


def _translate_title(activity: Record) -> list[Block]:
    title = activity["title"]
    rest = without(activity, *_ENVELOPE, "safeHtmlItem", *_FILES)
    if title.startswith(_NOTICES):
        return [translated(rest, text_block(title, "notice"), (), "title")]
    if not title.startswith(_PROMPT):
        return [translated(rest, text_block(title), (), "title")]
    typed = text_block(title.removeprefix(_PROMPT))
    return [translated({**rest, "title": title}, typed, (), "title")]


def _translate_files(activity: Record) -> list[Block]:
    values = [activity[key] for key in _FILES if key in activity]
    names = [name for value in values for name in (value if isinstance(value, list) else [value])]
    return [{"type": "file", "filename": name} for name in names]


def _translate_answer(activity: Record) -> list[Block]:
    """Return the HTML of an answer as text."""
    return [translated(item, text_block(item["html"]), {"html"}, "html") for item in activity["safeHtmlItem"]]


def _speakers(activity: Any) -> Iterator[tuple[Speaker, list[Block]]]:
    """Yield the speakers of an activity, with their blocks."""
    if text_at(activity, "title") is None:
        yield "system", [raw_block("malformed", activity, "activity")]
        return
    is_notice = activity["title"].startswith(_NOTICES)
    files = translate("files", activity, _translate_files) if any(key in activity for key in _FILES) else []
    yield (
        "system" if is_notice else "user",
        [*translate("activity", activity, _translate_title), *files],
    )
    if activity.get("safeHtmlItem"):
        yield "assistant", translate("activity", pick(activity, "safeHtmlItem"), _translate_answer)


def parse_block(block: Any) -> Block:
    return raw_block("unknown_type", block)


# The export.


def _activities(record: Record) -> list[Any]:
    """Return the activities from the oldest to the newest."""
    return bounded(record["list"])[::-1] if isinstance(record.get("list"), list) else [record]


def _parse_export(record: Record) -> ParsedRecord:
    blocks = [
        block for activity in _activities(record) for _, blocks in _speakers(activity) for block in blocks
    ]
    return ParsedRecord("message", "user", bounded(blocks))


def _items(record: Record) -> list[DocumentItem]:
    keys = UniqueKeys()
    return [
        DocumentItem(keys.name(text_at(activity, "time") or "activity"), activity, [*_parts(activity)])
        for activity in _activities(record)
    ]


def _parts(activity: Any) -> Iterator[Part]:
    time = to_milliseconds(value_at(activity, "time"))
    for speaker, blocks in _speakers(activity):
        yield Part(
            role=speaker,
            blocks=blocks,
            header=RecordHeader(timestamp=time),
            is_undated=time is None,
            original=activity,
        )


_EXPORT = document_type("activities", _parse_export, _items)


def _is_activity(value: Any) -> bool:
    return (
        isinstance(value, dict)
        and all(isinstance(value.get(name), str) for name in ("header", "time", "title"))
        and any(isinstance(name, str) and name.startswith(_PRODUCTS) for name in items_at(value, "products"))
    )


def recognize(record: Record) -> WireType | None:
    return _EXPORT if _is_activity(record) else None


def _recognizes_list(values: list[Any]) -> bool:
    return bool(values) and _is_activity(values[0])


def header(record: Record) -> RecordHeader:
    activities = listed(record)
    times = [time for each in activities if (time := to_milliseconds(value_at(each, "time"))) is not None]
    return RecordHeader(
        timestamp=min(times, default=None),
        last_timestamp=latest_time(times),
        title=text_at(activities[0], "header") if activities else None,
    )


def identify(record: Record) -> Identity:
    """Return the time of the oldest activity, the last in the list, which later exports keep."""
    activities = listed(record)
    return Identity(record=text_at(activities[-1], "time") if activities else None)


PROVIDER = Provider(
    source="gemini_takeout",
    recognize=recognize,
    marks=Marks(untyped_keys={"products"}),
    wire_type=lambda record: _EXPORT,
    parse_block=parse_block,
    recognizes_list=_recognizes_list,
    reads_lists=True,
    header=header,
    identify=identify,
)
