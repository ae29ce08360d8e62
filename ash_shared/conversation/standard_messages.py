"""Standard messages: the conversation of a session in one form for every provider.

A provider translates each record to `Part`s without knowing the records around it. `Fold` reads the parts in order and
decides, for each one, which message it belongs to:

| part | message |
|---|---|
| has a key that is known in the turn (or in the session, for some relations) | the message with this key |
| has the relation `continuation` and the role of the last message | the last message |
| has no role (usage, cost, an error, fields of a result) | the last answer of the main conversation or the subagent |
| is a link (`relations.RESOLVERS`) | none: it changes the prompt queue or the retracted range |
| any other part | a new message |

Until all lines are read, messages are `Draft`s. A part with blocks appends them, replaces them (a revision), or is
matched with them block by block (growth: a client writes the message again while it gets longer). Usage and metadata
replace earlier values. A draft keeps its place in the list: messages are in the order of their first lines.

A turn begins with a prompt and ends with a result record or the next prompt. Most keys are valid within a turn only,
and a copy matches an original in its own or an adjacent turn.

Nothing is removed. Formats write much content twice: a queued prompt and the message that sends it, an event and its
response item. Both become messages, and at the end `find_shadows` marks one with `shadowOf`; it has no usage, so sums
are correct. In the same way, messages that a rewind or an edited prompt revokes get `retracted`. A reader that shows a
conversation leaves both out; an export keeps every message with its original record.

A message has the provider's id or else one derived from its stored text, so ids do not change when lines are added.
`live_messages` reads the same drafts while a session is written; `paging` cuts the session between turns.

The event log interprets the same parts in `eventlog`, with two differences: it cannot wait for the end of the input,
and its state must stay small.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import count, islice, takewhile
from typing import Any, NamedTuple, TypeVar

from msgspec.structs import replace
from pydantic import BaseModel, ValidationError

from ash_shared.conversation.drafts import Draft, IdAllocator, PartName, StoredText
from ash_shared.conversation.queued_drafts import QueuedDraft, QueuedDrafts
from ash_shared.conversation.resent import ResentBlocks
from ash_shared.conversation.shadows import find_shadows
from ash_shared.conversation.transcript import Messages, texts_with_sources
from ash_shared.model.blocks import Block, text_block
from ash_shared.model.message import (
    MessageError,
    MessageMetadata,
    RecordHeader,
    StandardMessage,
    StandardTokenUsage,
)
from ash_shared.model.typed_blocks import typed_blocks
from ash_shared.parsing.parsed_text import ParsedText, parse_raw
from ash_shared.records.contract import Part, Record
from ash_shared.records.inherited import InheritedRecords
from ash_shared.records.json_text import is_blank, shown_text
from ash_shared.records.steps import Origin as PromptOrigin
from ash_shared.records.steps import is_person
from ash_shared.records.system_text import command_text, is_client_text, visible_text
from ash_shared.relations import (
    RESOLVERS,
    Links,
    Resolution,
    accept_usage,
    cost_since_last,
    is_in_dialect,
    is_reverted,
    resolve,
    revised_usage,
)


def transform_messages(lines: Messages, source: str | None = None) -> list[StandardMessage]:
    """Return the standard messages of a transcript, in the order of their first lines. Never raises on texts.

    `lines` are the messages of one session, each as its stored text, as the decoded object or list, or as a row
    `(message,)` or `(message, source)`; or one text, which is a JSON document or JSONL. `source` is the format of
    messages without a source of their own. The result has one message for each message of the API, even if it was
    written in several lines. Records outside the conversation, fragments of streams and blank lines add no message.
    Raises TypeError for anything else, such as a single dict.
    """
    fold = Fold()
    for text, text_source in texts_with_sources(lines, source):
        fold.add(text, text_source)
    return fold.messages()


class AnswerModel(NamedTuple):
    """The model of an answer, or of the answers of a session that state none."""

    line: int
    """The line that the answer or these answers begin on."""
    model: str


def counted_model(metadata: MessageMetadata) -> str | None:
    """Return the model of an answer; None for a duplicate, and for a text that a tool wrote (`<synthetic>`)."""
    model = None if metadata.shadow_of is not None else metadata.model
    return None if model is None or model.startswith("<") else model


class _Origin(NamedTuple):
    """The record of a part."""

    parsed: ParsedText
    header: RecordHeader
    """The header of the record, with the id and time of the part if it has its own."""
    source: str
    name: "PartName"


class Fold:
    """Folds the lines of a session into drafts of messages."""

    def __init__(self) -> None:
        self.drafts: list[Draft] = []
        """All messages, in the order of their first lines."""
        self.turn, self._line = 0, -1
        self.session_models: list[AnswerModel] = []
        """The models that headers state, each for the answers from its line on."""
        self._changed: set[int] = set()
        self._last: Draft | None = None
        """The last draft that is not a copy (`is_copy`); so are the next two."""
        self._answer: Draft | None = None
        self._prompts: list[Draft] = []
        """The first message of each turn that began with a prompt; without a copy that its original follows."""
        self._prompt_text: str | None = None
        self._repeated_answer: Draft | None = None
        self._answers: dict[str | None, Draft] = {}
        """The last answer of each subagent, by the call that started it; of the main conversation by None."""
        self._by_key: dict[tuple[str, str], Draft] = {}
        """Drafts of this turn by role and key."""
        self._by_stable_key: dict[str, Draft] = {}
        self._lines_seen: set[tuple[str, str]] = set()
        self._session: dict[str, str] = {}
        self._inherited = InheritedRecords()
        self._results: dict[str, Block] = {}
        self._retracted: set[str] = set()
        self._index_by_id: dict[str, int] = {}
        self._rewound_ranges: list[tuple[int, int]] = []
        self._calls_by_prompt: dict[str, dict[str, None]] = {}
        self._links, self._resent = Links(), ResentBlocks()
        self._line_call = ""
        """The call of this line's subagent, if the line does not state it."""
        self._queue = QueuedDrafts(self._links.queue)

    def set_model(self, model: str) -> None:
        """Set the model of the next answers that state none."""
        self._session["model"] = model
        self.session_models.append(AnswerModel(self._line, model))

    def add_header(self, raw: str | bytes, source: str | None) -> None:
        """Update the session's own fields from the header of a line, and add no message."""
        for parsed in _flatten(parse_raw(raw, source)):
            header = parsed.header()
            self._update_session(header)
            self._pass_inherited(header)

    def add(self, raw: str | bytes, source: str | None) -> None:
        self._line += 1
        if is_blank(raw):
            return
        line, number = StoredText(raw), count()
        for parsed in _flatten(parse_raw(raw, source)):
            header = parsed.header()
            self._update_session(header)
            self._pass_inherited(header)
            self._line_call = ""
            self._resent.begin_record()
            if not self._is_duplicate_line(header, line):
                for part in parsed.parts():
                    name = PartName(line, next(number))
                    source_name = shown_text(parsed.source(source))
                    self._add_part(part, _Origin(parsed, part.header_in(header), source_name, name))

    @property
    def inherited_lines(self) -> int:
        """The number of lines so far if all of them are inherited from another session, else 0."""
        return self._line + 1 if self._inherited else 0

    def messages(self, *, start: int = 0, end: int | None = None) -> list[StandardMessage]:
        """Return the messages that begin on the lines from `start` up to but excluding `end`; by default all."""
        shadows = self._end()
        ids = IdAllocator()
        named = {id(draft): ids.take(draft) for draft in self.drafts}
        for first, last in _merge_ranges(self._rewound_ranges):
            for draft in self.drafts[first:last]:
                draft.metadata["retracted"] = True
        for draft in self.drafts:
            if id(draft) in shadows:
                draft.metadata["shadowOf"] = named[id(shadows[id(draft)])]
        return [
            self.build(named[id(draft)], draft)
            for draft in self.drafts
            if start <= draft.line and (end is None or draft.line < end)
        ]

    def answer_models(self, start: int, end: int) -> list[AnswerModel]:
        """Return the models of the answers that begin on these lines, without building their messages."""
        shadows = self._end()
        answers = (
            draft
            for draft in self.drafts
            if draft.role == "assistant" and start <= draft.line < end and id(draft) not in shadows
        )
        models = ((draft.line, counted_model(_build_metadata(_about_model(draft)))) for draft in answers)
        return [AnswerModel(line, model) for line, model in models if model is not None]

    def _end(self) -> Mapping[int, Draft]:
        """End the queue, and return the shadows (`find_shadows`)."""
        self._note(self._queue.abandon_all())
        return find_shadows(self.drafts)

    def build(self, id: str, draft: Draft) -> StandardMessage:
        """Return the message of a whole or partial draft."""
        if draft.id in self._retracted:
            draft.metadata["retracted"] = True
        draft.blocks = [self._with_late_result(block) for block in draft.blocks]
        return _build_message(id, draft)

    def take_changes(self) -> set[int]:
        """Return the numbers of the drafts that were extended since the last call."""
        changed, self._changed = self._changed, set()
        return changed

    def may_change_usage(self, draft: Draft) -> bool:
        """True if the next lines may continue the message and revise its usage."""
        return bool(draft.forms) and any(draft is answer for answer in self._answers.values())

    def _is_duplicate_line(self, header: RecordHeader, line: StoredText) -> bool:
        """True if the same line, with the same record id, was added before."""
        if header.uuid is None:
            return False
        is_duplicate = (header.uuid, line.digest) in self._lines_seen
        self._lines_seen.add((header.uuid, line.digest))
        return is_duplicate

    def _pass_inherited(self, header: RecordHeader) -> None:
        """Follow the inherited records at the beginning; no own part continues them."""
        was_inherited = bool(self._inherited)
        self._inherited.follow(header)
        if was_inherited and not self._inherited:
            self._last = None

    def _update_session(self, header: RecordHeader) -> None:
        values = {"sessionId": header.session_id, "cliVersion": header.client_version, "model": header.model}
        if header.model and header.model != self._session.get("model"):
            self.session_models.append(AnswerModel(self._line, header.model))
        self._session.update({key: value for key, value in values.items() if value})

    def _add_part(self, part: Part, origin: _Origin) -> None:
        if not is_in_dialect(self._links, part) or self._follow_link(part, origin) or self._links.replay:
            return
        part = _as_typed(self._with_call(part), origin.source)
        self._retracted.update(part.retracts)
        if part.role is None:
            for call, fields in part.result_fields():
                self._results.setdefault(call, {}).update(fields)
            if not accept_usage(self._links, part):
                return
        if self._inherited:
            part = replace(part, usage=None, cost=None, metadata={**part.metadata, "inherited": True})
        if part.relation == "resent":
            self._add_resent(part, origin)
        else:
            self._add_content(part, origin)

    def _add_content(self, part: Part, origin: _Origin) -> None:
        self._add_taken_prompts(part, origin)
        draft = self._draft_for(part, origin)
        if draft is not None:
            self._extend(draft, part, origin)
            self._follow_queue(draft, part)
        if part.relation == "turn_end":
            self._end_turn(part, draft)

    def _add_resent(self, part: Part, origin: _Origin) -> None:
        """Add the new blocks of a part. Its usage follows: it belongs to the message with the blocks."""
        known = None if self._resent.is_new(part) else self._resent.draft_of(part)
        blocks = self._resent.new_blocks(part)
        if blocks or known is None:
            added = replace(part, blocks=blocks)
            draft = self._draft_for(added, origin)
            if draft is not None:
                self._extend(draft, added, origin)
                self._resent.assign(added, draft)
        elif part.role == "assistant":
            self._answer = self._answers[part.parent_call] = known
            self._changed.add(known.number)
            known.metadata.update(_metadata_of(part))

    def _follow_queue(self, draft: Draft, part: Part) -> None:
        """Add a prompt to the queue, or mark the queued prompt that a user message sends."""
        if draft.is_queued:
            self._queue.add(draft)
        elif part.role == "user":
            self._note(self._queue.send(part, draft))

    def _note(self, drafts: Iterable[Draft]) -> None:
        self._changed.update(draft.number for draft in drafts)

    def _add_taken_prompts(self, part: Part, origin: _Origin) -> None:
        """Before an answer, add messages for queued prompts that began the turn although no line sent them."""
        if part.role == "assistant" and part.parent_call is None:
            for draft in self._queue.taken():
                self._add_sent_prompt(draft, "prompt", origin)

    def _add_sent_prompt(self, queued: Draft, sent: PromptOrigin, origin: _Origin) -> None:
        """Add a message for a queued prompt at this point."""
        is_synthetic = bool(queued.metadata.get("synthetic"))
        part = Part(role="user", blocks=queued.blocks, origin="synthetic" if is_synthetic else sent)
        header = origin.header._replace(uuid=None, timestamp=queued.timestamp)
        source = origin._replace(header=header, name=queued.name)
        draft = self._new_draft(part, source)
        self._extend(draft, part, source)
        draft.originals = list(queued.originals)
        self._note([self._queue.mark_delivered(queued, draft)])

    def _remove_section(self, part: Part) -> None:
        draft = self._by_stable_key.get(part.key or "")
        if draft is not None:
            draft.put_section(part.section, [])
            self._changed.add(draft.number)

    def queued_prompts(self) -> Sequence[QueuedDraft]:
        return self._queue.entries

    def calls_with_prompt(self, prompt: str) -> Iterable[str]:
        return self._calls_by_prompt.get(prompt, ())

    def _follow_link(self, part: Part, origin: _Origin) -> bool:
        """Apply the decisions of a part about others; False for a part with content."""
        if part.relation not in RESOLVERS:
            return False
        resolution = resolve(self._links, part, origin.header.uuid, self)
        if resolution.line_call is not None:
            self._line_call = resolution.line_call
        if resolution.removes_section:
            self._remove_section(part)
        if resolution.delivered is not None:
            self._add_sent_prompt(resolution.delivered.draft, "mid_turn", origin)
        if resolution.withdrawn is not None:
            self._note([self._queue.retract(resolution.withdrawn)])
        self._retracted.update(resolution.retracted)
        self._retract(resolution)
        return True

    def _retract(self, resolution: Resolution[QueuedDraft]) -> None:
        """Retract a message with everything after it, or the last turns."""
        first = None
        if resolution.retracted_from is not None:
            unknown = 0 if resolution.is_from_start else None
            first = self._index_by_id.get(resolution.retracted_from, unknown)
        elif resolution.retracted_turns:
            first = self._start_of_turn(resolution.retracted_turns)
        if first is not None:
            self._rewound_ranges.append((first, len(self.drafts)))

    def _start_of_turn(self, number: int) -> int:
        """Return the index of the prompt of one of the last turns that stand; 0 if there are not that many."""
        standing = (
            prompt.number
            for prompt in reversed(self._prompts)
            if not any(first <= prompt.number < last for first, last in self._rewound_ranges)
        )
        return next(islice(standing, number - 1, None), 0)

    def _with_call(self, part: Part) -> Part:
        is_of_subagent = self._line_call and part.parent_call is None
        return replace(part, parent_call=self._line_call) if is_of_subagent else part

    def _draft_for(self, part: Part, origin: _Origin) -> Draft | None:
        """Return the message of a part; None if the part adds to an answer and there is none."""
        if part.role is None:
            answer = self._answers.get(part.parent_call) or self._answer or self._repeated_answer
            is_its_error = part.error is None or (answer is not None and answer.turn == self.turn)
            return answer if is_its_error else self._new_draft(part, origin)
        if part.key is not None:
            of_turn, of_session = self._by_key.get((part.role, part.key)), self._by_stable_key.get(part.key)
            known = of_session if part.is_keyed_in_session else of_turn
            if known is not None:
                return known
        last = self._last
        joins = part.relation == "continuation" and last is not None and last.joins_previous
        joins = joins and last is not None and last.turn == self.turn
        if last is not None and joins and last.role == part.role:
            return last
        return self._new_draft(part, origin)

    def _new_draft(self, part: Part, origin: _Origin) -> Draft:
        draft = Draft(
            number=len(self.drafts),
            line=self._line,
            turn=self.turn,
            name=origin.name,
            id=origin.header.uuid,
            source=origin.source,
            role=part.role or "system",
            joins_previous=part.relation == "continuation",
            is_copy=part.is_copy,
            is_queued=part.relation == "held_copy",
            metadata={key: self._session.get(key) for key in _SESSION_FIELDS[part.role == "assistant"]},
        )
        draft.blocks = [] if part.role else list(origin.parsed.content.blocks)
        self._index_by_id.setdefault(draft.id or "", draft.number)
        if is_reverted(self._links, origin.header):
            draft.metadata["retracted"] = True
        self.drafts.append(draft)
        self._index(draft, part)
        return draft

    def _index(self, draft: Draft, part: Part) -> None:
        if not draft.is_copy:
            self._last = draft
        if draft.role == "assistant" and draft.is_copy:
            self._repeated_answer = draft
        elif draft.role == "assistant":
            self._answer = self._answers[part.parent_call] = draft
        if part.key is not None and part.role is not None:
            self._by_key[part.role, part.key] = draft
            if part.is_keyed_in_session:
                self._by_stable_key[part.key] = draft

    def _extend(self, draft: Draft, part: Part, origin: _Origin) -> None:
        self._changed.add(draft.number)
        is_new, original = not draft.originals, _original_of(part, origin.parsed)
        is_repeated = part.is_revision and part.role is not None and part.blocks == draft.blocks
        is_same = not is_new and (original is draft.originals[-1] or is_repeated)
        self._add_blocks(draft, part, origin)
        draft.metadata.update(_metadata_of(part))
        draft.error = part.error or draft.error
        if draft.timestamp is None and (is_new or part.role is not None):
            draft.timestamp = origin.header.timestamp
        if part.usage is not None and part.relation not in _WITHOUT_OWN_COSTS:
            is_revision = part.role is None and part.relation == "revision"
            draft.usage = revised_usage(draft.usage or {}, part.usage) if is_revision else part.usage
            # Usage ends an answer: the next part begins another.
            draft.joins_previous &= part.role is not None
        if not is_same:
            draft.originals.append(original)
        may_begin_turn = is_new and part.role is not None and not draft.is_queued
        if may_begin_turn and (part.origin == "program" or (part.origin == "prompt" and draft.is_prompt())):
            self._begin_turn(draft, part)

    def _add_blocks(self, draft: Draft, part: Part, origin: _Origin) -> None:
        if part.is_revision and part.role is not None:
            draft.blocks = list(part.blocks)
        elif part.relation == "section":
            draft.put(part)
        elif part.relation == "growth":
            self._grow(draft, part, origin.header.uuid)
        elif part.role is not None:
            draft.blocks += part.blocks

    def _grow(self, draft: Draft, part: Part, record: str | None) -> None:
        """Add blocks to a message; record the calls that give a prompt to a subagent."""
        draft.grow(part.blocks, may_grow=part.follows is None or part.follows != draft.last_record)
        draft.last_record = record
        for block in part.blocks:
            arguments = block["input"] if block["type"] == "tool_use" and block.get("id") else None
            if isinstance(arguments, dict) and isinstance(arguments.get("prompt"), str):
                self._calls_by_prompt.setdefault(arguments["prompt"], {})[block["id"]] = None

    def _begin_turn(self, prompt: Draft, part: Part) -> None:
        """Begin a turn, unless the prompt is a copy of the last one."""
        text = prompt.text()
        if prompt.is_copy and self._prompt_text == text:
            return
        self.turn += 1
        prompt.turn = self.turn
        before = self._prompts[-1] if self._prompts else None
        if before is None or prompt.is_copy or not before.is_copy or before.text() != text:
            self._prompts.append(prompt)
        self._by_key = {(prompt.role, part.key): prompt} if part.key is not None else {}
        if not prompt.is_copy:
            prompt.begins_turn, self._prompt_text = True, text

    def _end_turn(self, part: Part, end: Draft | None) -> None:
        """Assign the cost of the turn to its last answer, and its usage if no answer has usage."""
        turn = list(takewhile(lambda draft: draft.turn == self.turn, reversed(self.drafts)))
        answers = [draft for draft in turn if draft.role == "assistant"]
        last = next((draft for draft in answers if not draft.is_copy), next(iter(answers), end))
        if last is not None:
            self._changed.add(last.number)
        if last is not None and part.usage is not None and not any(draft.usage for draft in answers):
            last.usage = part.usage
        if last is not None and part.cost is not None:
            session = self._session.get("sessionId", "")
            last.metadata["costUsd"] = cost_since_last(self._links, part.cost, session)
        self.turn += 1
        self._by_key = {}

    def _with_late_result(self, block: Block) -> Block:
        more = self._results.get(block.get("tool_use_id") or "") if block["type"] == "tool_result" else None
        return {**more, **block} if more else block


def _as_typed(part: Part, source: str) -> Part:
    """Return the part with text as the user typed it.

    Commands lose the client's tags; a Codex prompt is separated from the context before it.
    """
    if part.role != "user" or part.origin in ("program", "synthetic"):
        return part
    blocks = [typed for block in part.blocks for typed in _typed_texts(block, has_context=source == "codex")]
    return part if blocks == part.blocks else replace(part, blocks=blocks)


def _typed_texts(block: Block, *, has_context: bool) -> list[Block]:
    text = block["text"] if block["type"] == "text" else ""
    if (command := command_text(text)) is not None:
        return [{**block, "text": command}]
    prompt = visible_text(text) if has_context and "variant" not in block else text
    end = text.rstrip()
    context = end.removesuffix(prompt).rstrip()
    if prompt == text or not context or not end.endswith(prompt):
        return [block]
    return [{**block, "text": context}, text_block(prompt)]


def _metadata_of(part: Part) -> Record:
    """Return the metadata that a part adds to its message, by wire name."""
    is_own_section = part.relation == "section"  # the message knows which of its sections are synthetic
    is_synthetic = (
        part.origin == "program"
        or (part.origin == "synthetic" and not is_own_section)
        or (part.role == "user" and is_client_text(part.blocks) and not is_person(part.sender))
    )
    values = {
        "messageId": part.message_id,
        "parentToolUseId": part.parent_call,
        "costUsd": None if part.relation in _WITHOUT_OWN_COSTS else part.cost,
        "synthetic": is_synthetic or None,
        **({} if part.sender is None else part.sender.fields()),
        **part.metadata,
    }
    return {name: value for name, value in values.items() if value is not None}


_WITHOUT_OWN_COSTS = frozenset({"section", "turn_end"})
"""Relations of parts that do not set the usage and cost of their message directly."""

_SESSION_FIELDS = {True: ("sessionId", "cliVersion", "model"), False: ("sessionId", "cliVersion")}
"""Fields of the session that its messages inherit; the model only for answers."""


def _merge_ranges(ranges: Iterable[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """Return ranges that cover the same indexes without overlap."""
    end = 0
    for first, last in sorted(ranges):
        if last > end:
            yield max(first, end), last
            end = last


def _flatten(parsed: ParsedText) -> Iterator[ParsedText]:
    if parsed.elements:
        for element in parsed.elements:
            yield from _flatten(element)
    else:
        yield parsed


def _original_of(part: Part, parsed: ParsedText) -> Any:
    """Return the decoded record, or its section that became the part; the text if there is no record."""
    if part.original is not None:
        return part.original
    return parsed.content.blocks[0].get("text") if parsed.record is None else parsed.record


def _build_message(id: str, draft: Draft) -> StandardMessage:
    values = {
        "id": id,
        "role": draft.role,
        "timestamp": draft.timestamp,
        "content": typed_blocks(draft.blocks),
        "usage": _validate_or_none(StandardTokenUsage, draft.usage),
        "metadata": _build_metadata({**draft.metadata, "source": draft.source}),
        "error": _validate_or_none(MessageError, draft.error),
        "_original": draft.originals,
    }
    return StandardMessage.model_validate({key: value for key, value in values.items() if value is not None})


Checked = TypeVar("Checked", bound=BaseModel)


def _validate_or_none(model: type[Checked], values: Any) -> Checked | None:
    """Return the validated model; None if the values are malformed, which stay in `_original`."""
    try:
        return None if values is None else model.model_validate(values, strict=True)
    except ValidationError:
        return None


def _about_model(draft: Draft) -> Record:
    """Return the metadata of an answer that `counted_model` reads."""
    return {name: draft.metadata.get(name) for name in ("model", "shadowOf")} | {"source": draft.source}


def _build_metadata(values: Record) -> MessageMetadata:
    """Return the metadata without values of the wrong type, which stay in `_original`."""
    known = {key: value for key, value in values.items() if value is not None}
    try:
        return MessageMetadata.model_validate(known, strict=True)
    except ValidationError as error:
        wrong = {problem["loc"][0] for problem in error.errors()}
        valid = {key: value for key, value in known.items() if key not in wrong}
        return MessageMetadata.model_validate(valid)
