"""RESULTS.md: the tables, and what one has to know to read them."""

import os
import platform
from collections.abc import Iterable
from datetime import date
from pathlib import Path

from benchmarks.table import Details, Row, details, goals

RESULTS = Path(__file__).with_name("RESULTS.md")

_READING = """\
Every figure is a ratio of two things measured in this one run, which took turns: each round runs every one of them
once, beginning with another one each time, after a first round that does not count. The garbage collector is emptied
before each run and left on while it lasts. P1 to P5 compare the best rounds, since noise can only add to work that
waits for nothing; P6 to P8 and P12, which wait for a disk, give the median of the rounds' ratios. Ratios are speeds
(2x is twice as fast) but for P7 and P8, where they are times (2x takes twice as long). Absolute times would say more
about the machine than about Ash, and are left out, but for P9 and P11, whose goals are some.

- P1 to P3: the same bytes, one message after the other, against `orjson.loads`, which builds everything and types
  nothing. The mix is the user and assistant lines of Claude Code sessions in their natural proportion.
- P4: each peer is given the message's text and orjson to decode it, but for node, which has its strings ready. The
  original TypeScript parser is re-expressed in `peers/original_parser.mjs`. Peers do other things too: anthropic,
  openai, google-genai and pydantic-ai also model the usage, langchain-core translates into a schema of its own. A peer
  that refuses a message is done with it sooner.
- P5: in one process, without a network, the query to PostgreSQL included.
- P6: on the embedded PostgreSQL with fsync on, each writer with a connection and a session of its own. The plain
  tables have the same columns, an identity as their key and an index by session; they are given all that is in the
  rows, ready to be sent. Peers are given the objects they store and make their JSON themselves. Ash is given texts, or
  events, and reads, checks and encodes them while the time runs; where it says so, the texts were read before. A
  message is written with its events in one transaction, and so are the plain rows beside it: those of both.
- P7: against `COPY` of the same columns in order, read without asyncio.
- P9: from before an event is appended until a follower has it. The process that measures is also the writer and all
  of the followers; through a server, they are connections to it.
- P11: in Chromium, on a session made of the sample sessions of `ash demo`, over and over with new ids, from a server of
  its own. The first screen is there when events have been painted in the window, from the start of the navigation; all
  of it, when the last page has been laid out, from the press of the button. The plain page asks the same server for
  the same events and puts what each says into one `<div>` as a text. What moves is looked for in every frame, at what
  stands first on the screen, while more comes behind it or ahead of it. Medians of the rounds.
- P12: lines of the mix, which are read, typed and stored with their events, against the lines alone. To derive events
  anew is to read every message and to write its events behind those that there are."""


def render(rows: Iterable[Row], tables: Iterable[Details], about: str) -> str:
    parts = [about, goals(rows), *map(details, tables)]
    return "\n\n".join(parts)


def write(rows: Iterable[Row], tables: Iterable[Details], about: str) -> None:
    more = "\n\n".join(f"## {details(each)}" for each in tables)
    text = f"# Results\n\n`make bench` wrote this. {about}\n\n## Goals\n\n{goals(rows)}\n\n"
    RESULTS.write_text(f"{text}## How to read it\n\n{_READING}\n\n{more}\n", encoding="utf-8")


def about(samples: str, postgresql: str, *, smoke: bool) -> str:
    if smoke:
        return f"A smoke run, on {samples}: it shows that the benches run, and its ratios say nothing."
    machine = f"{os.cpu_count()} cores ({platform.machine()}), Python {platform.python_version()}"
    today = date.today().isoformat()
    return f"Measured on {today} with {machine}, PostgreSQL {postgresql}, on {samples}."
