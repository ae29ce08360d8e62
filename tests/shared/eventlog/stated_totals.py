"""The totals that tools state in their own files, read from the raw records, and the sums of answers."""

import itertools
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import chain
from typing import Any, TypeAlias

from ash_shared.conversation.transcript import split_transcript
from ash_shared.eventlog import Context, Normalizer, parse_line
from ash_shared.model.usage.answers import AnswerUsage, last_values

Record: TypeAlias = Mapping[str, Any]
Totals: TypeAlias = dict[str, int]
"""The stated counts: input without cached tokens, output with reasoning, and `cost` in nano-dollars."""

NANO = 1_000_000_000

FIELDS = {
    "input": ("input_tokens",),
    "cache_read": ("cache_read_tokens",),
    "cache_write": ("cache_write_5m_tokens", "cache_write_1h_tokens"),
    "output": ("output_tokens",),
    "reasoning": ("reasoning_tokens",),
    "cost": ("reported_cost",),
}
"""The fields of answers that a count adds up."""


def answers_of(text: str, source: str | None = None) -> list[AnswerUsage]:
    ids = itertools.count()
    at = Context("s", lambda: f"e{next(ids)}", lambda: 7)
    normalizer, values = Normalizer(source), list[AnswerUsage]()
    for each in split_transcript(text):
        normalizer.follow(parse_line(each, source), at)
        values += normalizer.answers
    normalizer.close(at)
    return last_values([*values, *normalizer.answers])


def totals_of(values: list[AnswerUsage]) -> Totals:
    return {
        name: sum(getattr(value, field) or 0 for value in values for field in fields)
        for name, fields in FIELDS.items()
    }


def records_of(text: str, *, is_document: bool) -> Iterator[Record]:
    """Yield the records of a file, also those in arrays; other lines are left out."""
    for line in [text] if is_document else text.split("\n"):
        try:
            value = json.loads(line)
        except ValueError:
            continue
        yield from (each for each in (value if isinstance(value, list) else [value]) if _is_object(each))


def _is_object(value: object) -> bool:
    return isinstance(value, dict)


def _object(value: object) -> Record:
    return value if isinstance(value, dict) else {}


def _add_up(parts: Iterable[Totals]) -> Totals:
    parts = list(parts)
    return {name: sum(part.get(name, 0) for part in parts) for name in dict.fromkeys(chain(*parts))}


def _renamed(record: Record, names: Mapping[str, str]) -> Totals:
    return {ours: record[theirs] for ours, theirs in names.items() if isinstance(record.get(theirs), int)}


def _cost(dollars: object) -> Totals:
    return {"cost": round(dollars * NANO)} if isinstance(dollars, int | float) else {}


# Claude: the usage of each run, and the cost of the session so far

CLAUDE_RUN = {
    "input": "input_tokens",
    "cache_read": "cache_read_input_tokens",
    "cache_write": "cache_creation_input_tokens",
    "output": "output_tokens",
}
CLAUDE_MODEL = {
    "input": "inputTokens",
    "cache_read": "cacheReadInputTokens",
    "cache_write": "cacheCreationInputTokens",
    "output": "outputTokens",
}


def claude_results(records: Iterable[Record]) -> Totals:
    runs, costs = list[Totals](), dict[str, Totals]()
    for record in records:
        if record.get("type") == "result":
            runs.append(_renamed(_object(record.get("usage")), CLAUDE_RUN))
            costs[str(record.get("session_id"))] = _cost(record.get("total_cost_usd"))
    return _add_up([*runs, *costs.values()])


def claude_models(records: Iterable[Record]) -> Totals:
    """The usage of a run by model, with requests that the stream does not show."""
    last = dict[str, Totals]()
    for record in records:
        if record.get("type") == "result" and isinstance(record.get("modelUsage"), dict):
            models = record["modelUsage"].values()
            last[str(record.get("session_id"))] = _add_up(
                _renamed(_object(each), CLAUDE_MODEL) for each in models
            )
    return _add_up(last.values())


def claude_cost_states(records: Iterable[Record]) -> Totals:
    last = dict[str, Totals]()
    for record in records:
        if record.get("type") == "cost-state":
            models = [_renamed(each, CLAUDE_MODEL) for each in record["modelUsage"].values()]
            last[record["sessionId"]] = _add_up([*models, _cost(record["totalCostUSD"])])
    return _add_up(last.values())


# Codex: input includes cached tokens


def _codex_usage(usage: Record) -> Totals:
    cached, written = usage.get("cached_input_tokens", 0), usage.get("cache_write_input_tokens", 0)
    totals = {
        "input": usage["input_tokens"] - cached - written,
        "cache_read": cached,
        "cache_write": written,
        "output": usage["output_tokens"],
    }
    return totals | _renamed(usage, {"reasoning": "reasoning_output_tokens"})


def codex_rollout(records: Iterable[Record]) -> Totals:
    total: Totals = {}
    for record in records:
        payload = _object(record.get("payload"))
        usage = payload.get("thread_token_usage") or _object(payload.get("info")).get("total_token_usage")
        total = _codex_usage(usage) if usage else total
    return total


def codex_exec(records: Iterable[Record]) -> Totals:
    return _add_up(
        _codex_usage(record["usage"]) for record in records if record.get("type") == "turn.completed"
    )


# OpenCode and Kilo: sums of the session's row, or the costs of its steps

OPENCODE_ROW = {
    "input": "tokens_input",
    "cache_read": "tokens_cache_read",
    "cache_write": "tokens_cache_write",
    "reasoning": "tokens_reasoning",
}


def _opencode_tokens(tokens: Record) -> Totals:
    """Some versions count reasoning in `output`, others beside it; the total says which."""
    cache, input = _object(tokens.get("cache")), tokens.get("input", 0)
    read, written = cache.get("read", 0), cache.get("write", 0)
    output = tokens["total"] - input - read - written if "total" in tokens else tokens.get("output", 0)
    return {
        "input": input,
        "cache_read": read,
        "cache_write": written,
        "output": output,
        "reasoning": tokens.get("reasoning", 0),
    }


def opencode_rows(records: Iterable[Record]) -> Totals:
    rows = [record["columns"] for record in records if record.get("table") == "session"]
    return _add_up(
        _renamed(row, OPENCODE_ROW)
        | {"output": row["tokens_output"] + row["tokens_reasoning"]}
        | _cost(row["cost"])
        for row in rows
    )


def opencode_messages(records: Iterable[Record]) -> Totals:
    infos = [_object(each.get("info")) for record in records for each in record.get("messages", ())]
    return _add_up(
        _opencode_tokens(info["tokens"]) | _cost(info.get("cost")) for info in infos if "tokens" in info
    )


def opencode_steps(records: Iterable[Record]) -> Totals:
    parts = [record["part"] for record in records if record.get("type") == "step_finish"]
    return _add_up(_opencode_tokens(_object(part.get("tokens"))) | _cost(part.get("cost")) for part in parts)


# pi: each answer at its end

PI = {"input": "input", "cache_read": "cacheRead", "cache_write": "cacheWrite", "output": "output"}


def pi_messages(records: Iterable[Record]) -> Totals:
    ends = [record["message"] for record in records if record.get("type") == "message_end"]
    usages = [message["usage"] for message in ends if "usage" in message]
    return _add_up(_renamed(usage, PI) | _cost(usage["cost"]["total"]) for usage in usages)


# Gemini CLI


def gemini_messages(records: Iterable[Record]) -> Totals:
    messages = list(chain.from_iterable(record.get("messages", [record]) for record in records))
    by_id = {message.get("id"): _object(message.get("tokens")) for message in messages if _is_object(message)}
    return _add_up(
        {
            "input": tokens["input"] - tokens.get("cached", 0) + tokens.get("tool", 0),
            "cache_read": tokens.get("cached", 0),
            "output": tokens["output"] + tokens.get("thoughts", 0),
            "reasoning": tokens.get("thoughts", 0),
        }
        for tokens in by_id.values()
        if tokens
    )


def gemini_stats(records: Iterable[Record]) -> Totals:
    stats = [record["stats"] for record in records if record.get("type") == "result"]
    return _add_up(
        {
            "input": each["input_tokens"] - each["cached"],
            "cache_read": each["cached"],
            "output": each["output_tokens"],
        }
        for each in stats
    )


# Copilot CLI: totals of the session so far, when it shuts down; a unit costs 10^-11 dollars


def copilot_shutdowns(records: Iterable[Record]) -> Totals:
    shutdowns = [record["data"] for record in records if record.get("type") == "session.shutdown"]
    totals: Totals = {}
    for data in shutdowns:
        usages = [_object(each.get("usage")) for each in _object(data.get("modelMetrics")).values()]
        totals |= _add_up(_copilot_usage(usage) for usage in usages if usage)
        units = data.get("totalNanoAiu")
        totals |= {"cost": units // 100} if isinstance(units, int) else {}
    return totals


def _copilot_usage(usage: Record) -> Totals:
    cached, written = usage.get("cacheReadTokens", 0), usage.get("cacheWriteTokens", 0)
    return {
        "input": usage["inputTokens"] - cached - written,
        "cache_read": cached,
        "cache_write": written,
        "output": usage["outputTokens"],
    } | _renamed(usage, {"reasoning": "reasoningTokens"})


# ATIF


def atif_metrics(records: Iterable[Record]) -> Totals:
    metrics = [_object(record.get("final_metrics")) for record in records]
    return _add_up(
        {
            "input": each["total_prompt_tokens"] - each.get("total_cached_tokens", 0),
            "cache_read": each.get("total_cached_tokens", 0),
            "output": each["total_completion_tokens"],
        }
        | _cost(each.get("total_cost_usd"))
        for each in metrics
        if "total_prompt_tokens" in each
    )


# Antigravity: input beside cached tokens

ANTIGRAVITY = {
    "input": "input_tokens",
    "cache_read": "cache_read_tokens",
    "output": "output_tokens",
    "reasoning": "thinking_tokens",
}


def antigravity_results(records: Iterable[Record]) -> Totals:
    results = [_object(record.get("result")) for record in records if record.get("event") == "result"]
    return _add_up(_renamed(_object(result.get("usage")), ANTIGRAVITY) for result in results)


Reader: TypeAlias = Callable[[Iterable[Record]], Totals]

READERS: Mapping[str, tuple[Reader, ...]] = {
    "agent_sdk_stream": (claude_results, claude_models),
    "antigravity_cli": (antigravity_results,),
    "atif": (atif_metrics,),
    "claude_code_2_1_2xx": (claude_cost_states,),
    "claude_stream_json": (claude_results, claude_models),
    "codex_exec": (codex_exec,),
    "codex_rollout": (codex_rollout,),
    "codex_rollout_0_14x": (codex_rollout,),
    "copilot_cli": (copilot_shutdowns,),
    "gemini_cli_session": (gemini_messages,),
    "gemini_cli_stream": (gemini_stats,),
    "opencode_export_2026": (opencode_messages,),
    "opencode_sqlite": (opencode_rows,),
    "opencode_stream": (opencode_steps,),
    "pi_stream": (pi_messages,),
}
"""What reads the totals of the files in a folder."""
