"""The table of the relations without content: each has one function, which both readers of a session use."""

from collections.abc import Callable, Mapping
from typing import Any

from ash_shared.model.blocks import joined_text
from ash_shared.records.digests import text_digest
from ash_shared.records.steps import Part, Relation
from ash_shared.relations.links import Links, Resolution, Revert, Surroundings
from ash_shared.relations.prompt_queue import Entry

_NOTHING: Resolution[Any] = Resolution()


def resolve(links: Links, part: Part, record: str | None, around: Surroundings[Entry]) -> Resolution[Entry]:
    """Return the decisions of a part with one of these relations. `record` is the id of its record."""
    return RESOLVERS[part.relation](links, part, record, around)


def _branch(links: Links, part: Part, record: str | None, around: Surroundings[Any]) -> Resolution[Any]:
    """Retract an earlier prompt that follows the same record."""
    if part.key is None or record is None:
        return _NOTHING
    return _next_version(links.prompts_by_parent, text_digest(part.key), record)


def _root(links: Links, part: Part, record: str | None, around: Surroundings[Any]) -> Resolution[Any]:
    """Retract an earlier first prompt, if this record is one."""
    prompt = record if part.origin == "prompt" else None
    return _next_version(links.first_prompts, text_digest(part.key or ""), prompt or "")


def _next_version(prompts: dict[str, str], place: str, prompt: str) -> Resolution[Any]:
    """Record the prompt at a place of the conversation, and retract the one that was there."""
    earlier = prompts.pop(place, "")
    prompts[place] = prompt
    if not earlier or not prompt or earlier == prompt:
        return _NOTHING
    return Resolution(retracted_from=earlier, is_new_version=True)


def _sidechain(links: Links, part: Part, record: str | None, around: Surroundings[Any]) -> Resolution[Any]:
    """Find the call of a subagent's line: the call of the line before, or the first free one with the same prompt."""
    if part.key is not None:
        call = links.sidechain_calls.get(text_digest(part.key), "")
    else:
        taken = set(links.sidechain_calls.values())
        calls = around.calls_with_prompt(joined_text(part.blocks))
        call = next((call for call in calls if call not in taken), "")
    if call and record is not None:
        links.sidechain_calls[text_digest(record)] = call
    return Resolution(line_call=call)


def _reversion(links: Links, part: Part, record: str | None, around: Surroundings[Any]) -> Resolution[Any]:
    """Retract a message with everything after it, or as soon as it comes; a record that says so again does nothing."""
    message, digest = part.retracts[0], text_digest(part.retracts[0])
    if links.revert is not None and links.revert.message == digest:
        return _NOTHING
    links.revert = Revert(digest, part.until or 0)
    return Resolution(retracted_from=message)


def _take(links: Links, part: Part, record: str | None, around: Surroundings[Any]) -> Resolution[Any]:
    links.queue.take(around.queued_prompts(), joined_text(part.blocks))
    return _NOTHING


def _removal(links: Links, part: Part, record: str | None, around: Surroundings[Entry]) -> Resolution[Entry]:
    return Resolution(delivered=links.queue.remove(around.queued_prompts(), joined_text(part.blocks)))


def _withdrawal(
    links: Links, part: Part, record: str | None, around: Surroundings[Entry]
) -> Resolution[Entry]:
    return Resolution(withdrawn=links.queue.withdraw(around.queued_prompts(), joined_text(part.blocks)))


def _delivery_log(links: Links, part: Part, record: str | None, around: Surroundings[Any]) -> Resolution[Any]:
    links.queue.records_deliveries = True
    return _NOTHING


def _replay(links: Links, part: Part, record: str | None, around: Surroundings[Any]) -> Resolution[Any]:
    """Begin a replay. The first one of a session that has not begun is the session itself."""
    links.replay = "" if links.replay is None else part.key
    return _NOTHING


def _replay_end(links: Links, part: Part, record: str | None, around: Surroundings[Any]) -> Resolution[Any]:
    if part.key is None or part.key == links.replay:
        links.replay = ""
    return _NOTHING


RESOLVERS: Mapping[Relation, Callable[[Links, Part, str | None, Surroundings[Any]], Resolution[Any]]] = {
    "branch": _branch,
    "delivery_log": _delivery_log,
    "removal": _removal,
    "replay": _replay,
    "replay_end": _replay_end,
    "retraction": lambda links, part, record, around: Resolution(retracted=part.retracts),
    "reversion": _reversion,
    "rollback": lambda links, part, record, around: Resolution(retracted_turns=part.turns),
    "root": _root,
    "section_removal": lambda links, part, record, around: Resolution(removes_section=True),
    "sidechain": _sidechain,
    "take": _take,
    "truncation": lambda links, part, record, around: Resolution(
        retracted_from=part.retracts[0], is_from_start=True
    ),
    "withdrawal": _withdrawal,
}
"""A new relation without content is a row here, a name in `Relation` and a function."""
