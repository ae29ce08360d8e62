"""RESULTS.md: the tables and how to read them."""

import os
import platform
from collections.abc import Iterable, Sequence
from datetime import date
from pathlib import Path

from benchmarks.missed_goals import missed_goals
from benchmarks.table import Details, Row, details, goals

RESULTS = Path(__file__).with_name("RESULTS.md")
_DOCS = Path(__file__).parents[1] / "docs"

_READING = """\
Every figure is a ratio of two cases measured in the same run. Each round runs every case once, in rotating order, after
one warm-up round. The garbage collector runs before each case and stays enabled. P1 to P5 and P10 compare the best
rounds, because noise only slows down CPU-bound work; P6 to P8, P12 and P14 wait for a disk or a server and use the
median ratio of the rounds. Ratios are speeds (2x is twice as fast), except for P7, P8 and P10, where they are times or
sizes (2x is twice as much). P9, P11 and P15 to P18 have absolute goals; elsewhere absolute times are left out, because
they describe the machine more than Ash.

- P1 to P3: the same bytes, one message at a time, compared with `orjson.loads`, which builds all values without types.
  The mix is the user and assistant lines of Claude Code sessions in their natural proportion.
- P4: each peer receives the text of the message and decodes it with orjson; node has the strings in memory. The
  original TypeScript parser is reimplemented in `peers/original_parser.mjs`. Peers do additional work: anthropic,
  openai, google-genai and pydantic-ai also model the usage, langchain-core translates into its own schema. A peer that
  rejects a message finishes sooner.
- P5: in one process, without a network, including the query to PostgreSQL.
- P6: on the embedded PostgreSQL with fsync on; each writer has its own session, and its own connection for plain
  inserts. Ash appends with a `Store`, as programs do. The plain tables have the same columns, an identity key and an
  index by session, and receive complete, encoded rows. Peers receive their own objects and encode the JSON themselves.
  Ash receives texts or events and parses, checks and encodes them within the measured time, except for "read before".
  Ash writes a message and its events in one transaction; so do the plain inserts, which write the rows of both. For the
  chunks at the end of a long text, the ratios are times and bytes.
- P7: compared with `COPY` of the same columns in order, read without asyncio.
- P9: from the start of the append to the receipt by a subscriber. The measuring process is also the writer and all
  subscribers; through a server, they are connections to it.
- P10: a transcript of the lines of the mix, imported into empty tables with their indexes. Pages are requested as in P5
  from that session and from a copy with events stored whole.
- P11: in Chromium, with a server process, on a session generated from the samples of `ash demo`, repeated with new ids.
  The first screen counts from the start of the navigation until events are painted; the whole session from the click
  until the last page is laid out. The plain page requests the same events from the same server and shows each as text
  in one `<div>`. Shifts are measured in every frame, at the first visible element, while events are added below or
  above it. Medians of the rounds.
- P12: lines of the mix, read, typed and stored with their events, compared with the lines alone. Rebuilding the events
  reads every message and writes its events after the existing ones.
- P14: sessions of 2.5 KB items, each appended to a new session by one writer; the ratio of appends is the median of
  their sizes. The peers are the same as in P6, on PostgreSQL without a server between.
- P15: `redact_text` in a thread, on the worst inputs for its patterns and on JSON with these texts, in CPU time of the
  process. The wait is the longest time during which the event loop cannot run. Shortest times of the rounds.
- P16: in a store with answers of a year, 500 per session, as a tenant; the database only. Appends are single messages,
  with their events. Medians of the rounds.
- P17: pages of 100 of a tenant with sessions of two years in 50 projects; the database only, with the prices loaded.
  The filters are a source, a model, a tool, and errors. Medians of the rounds.
- P18: requests in protobuf, each of new conversations. A span has up to 8 messages of 150 characters. Medians of the
  rounds."""


def render(rows: Sequence[Row], tables: Iterable[Details], about: str) -> str:
    parts = [about, goals(rows), *map(details, tables)]
    return "\n\n".join(parts)


def write(rows: Sequence[Row], tables: Iterable[Details], about: str) -> None:
    more = "\n\n".join(f"## {details(each)}" for each in (missed_goals(rows), *tables))
    text = f"# Results\n\nWritten by `make bench`. {about}\n\n## Goals\n\n{goals(rows)}\n\n"
    RESULTS.write_text(f"{text}## How to read it\n\n{_READING}\n\n{more}\n", encoding="utf-8")


def about(samples: str, postgresql: str, *, smoke: bool) -> str:
    if smoke:
        return f"A smoke run, on {samples}: it only proves that the benchmarks run; its ratios mean nothing."
    return f"Measured on {_today_and_machine()}, PostgreSQL {postgresql}, on {samples}."


def write_measured(name: str, text: str, page: str = "security.md") -> None:
    """Replace the text of `make NAME` on a page of the documentation, between two markers."""
    path = _DOCS / page
    before, start, rest = path.read_text(encoding="utf-8").partition(f"<!-- make {name} -->\n")
    _, end, after = rest.partition(f"\n<!-- end of make {name} -->")
    if not end:
        raise ValueError(f"{path} has no markers of make {name}")
    measured = f"\n`make {name}` on {_today_and_machine()}.\n\n{text}\n"
    path.write_text(f"{before}{start}{measured}{end}{after}", encoding="utf-8")


def _today_and_machine() -> str:
    machine = f"{os.cpu_count()} cores ({platform.machine()}), Python {platform.python_version()}"
    return f"{date.today().isoformat()} with {machine}"
