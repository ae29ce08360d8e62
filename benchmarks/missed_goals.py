"""The goals that a run missed, with the reasons."""

from collections.abc import Iterable
from typing import NamedTuple

from benchmarks.table import Details, Row


class _Reason(NamedTuple):
    goal: str
    what: str
    """The beginning of the row's `what`; the first reason that fits counts."""
    reason: str


_REASONS: tuple[_Reason, ...] = (
    _Reason(
        "P1",
        "objects, slowest",
        "A block takes 2 to 4 us to translate and 1 us to build with pydantic, so records with three or more blocks "
        "exceed 10 us, and documents have 4 to 14. Requests and messages of APIs have keys of several formats: "
        "recognition takes 3 to 6 us. Texts of Vercel's stream are lists of 7 records. The table of formats below the "
        "floor has the time of each stage.",
    ),
    _Reason(
        "P1", "objects, mix", "Half of the time is decoding; the objects of pydantic take most of the rest."
    ),
    _Reason(
        "P2",
        "JSON bytes, mix",
        "The scan of the record and the checked decoding of its content take 4.5 us of the 5.2 us that orjson takes.",
    ),
    _Reason(
        "P2", "JSON bytes, slowest", "As for objects; translated blocks are built as dicts and encoded again."
    ),
    _Reason(
        "P3",
        "",
        "Blocks with unknown keys are read a second time, by a decoder that keeps all keys, and a block of an unknown "
        "type is built from its text.",
    ),
    _Reason(
        "P4",
        "objects, Chat Completions answers, against openai ChatCompletion.model_validate_json",
        "The peer is compiled for this one shape and drops unknown values; Ash recognises the format and "
        "translates the content.",
    ),
    *(
        _Reason(
            "P4",
            f"objects, {lines}, against the original",
            "node has the strings in memory and builds plain objects; Ash decodes bytes and builds checked models.",
        )
        for lines in ("assistant lines", "bare messages", "user lines")
    ),
    _Reason(
        "P6",
        "posted events",
        "An event is checked, numbered and encoded, and the session is locked and its counters are written, which the "
        "plain tables and the other stores do without.",
    ),
    _Reason(
        "P6",
        "messages of 2.5 KB with their events, read before",
        "In appends of 100, a message takes 178 us in Python and 115 us in PostgreSQL; with INSERTs, 26 and 65. "
        "Deriving its events takes 75 us, the totals of the session 12 us. PostgreSQL also writes its answer and the "
        "sums, and looks up its id.",
    ),
    _Reason(
        "P6",
        "pieces of a stream with their events, read before",
        "In appends of 100, a piece takes 70 us in Python and 55 us in PostgreSQL; with INSERTs, 17 and 15. "
        "Its events are derived, and the counters and the open text are written.",
    ),
    _Reason(
        "P6",
        "",
        "Beside the rows of a message, its state and its session are read, locked and written, and events are derived "
        "while the time runs.",
    ),
    _Reason(
        "P5",
        "page of 100 typed messages, against a handler of models",
        "Both pages have the same query, which takes most of the time since typed blocks are copied.",
    ),
    _Reason(
        "P11",
        "shift",
        "Heights of loaded rows are fractions of a pixel and scroll positions are not: corrections below 0.5 px are "
        "skipped.",
    ),
    _Reason(
        "P11",
        "",
        "The whole session is 64,000 elements: creating, styling and laying them out takes most of the main "
        "thread's time; the first screen is the start of the browser's page, its modules and the layout.",
    ),
    _Reason(
        "P12",
        "",
        "A line takes 300 us in Python and 105 us in PostgreSQL; with COPY, 12 and 45. In Python, parsing and "
        "describing it takes 37 % of the time, deriving its events 39 %, psycopg 7 %. PostgreSQL spends a third on "
        "compressing texts. A process of `--jobs` starts in 0.9 s.",
    ),
    _Reason("P13", "", "A page with a single message is one statement; row-level security adds about 20 us."),
    _Reason(
        "P14",
        "AshSessionStore in process, appending",
        "As for P6: the peer only inserts rows. For a single entry, Ash also derives its events, and locks and "
        "compares the session in the statement that stores them.",
    ),
    _Reason(
        "P14",
        "AshSession in process, appending",
        "As for P6; single items are faster than the peer's, which needs more round trips.",
    ),
    _Reason(
        "P14",
        "AshSessionStore in process, 20 writers",
        "Each append is a transaction on disk, after those before it.",
    ),
    _Reason(
        "P14",
        "AshSessionStore over HTTP, 20 writers",
        "Each append is a transaction on disk, after those before it, and 20 clients share the processors with the "
        "server.",
    ),
    *(
        _Reason(
            "P14",
            f"{adapter} over HTTP, appending",
            "A request costs 1.7 ms of CPU time besides the append itself, 1.4 ms in httpx2 and its transport. The "
            "rest is as in process.",
        )
        for adapter in ("AshSessionStore", "AshSession")
    ),
    _Reason(
        "P14",
        "AshSession over HTTP, loading",
        "Each load connects, finds the session by its name and then reads it: two requests. The page is encoded in the "
        "server and decoded before its items; the peer decodes items only.",
    ),
    _Reason(
        "P14",
        "AshSessionStore over HTTP, loading",
        "The server encodes a page of 2.6 MB in 3 ms, and the client decodes it before its entries; the peer decodes "
        "entries only.",
    ),
    _Reason(
        "P14",
        "",
        "The peer is connected to PostgreSQL directly; requests and answers pass through a server, which encodes them "
        "in JSON again.",
    ),
    _Reason(
        "P15",
        "worst of",
        "The binary values of a text are found one by one: 6 us for each of 91,000. This is 0.5 to 0.7 s of CPU time; "
        "the rest is other work of the machine.",
    ),
    _Reason(
        "P16",
        "the total of each",
        "More than 95 % of the time is one statement of PostgreSQL, which groups the sums of all sessions.",
    ),
    _Reason(
        "P18",
        "spans stored",
        "Three quarters of the time is reading spans of eight messages and deriving their events, in one process that "
        "also sends them.",
    ),
    _Reason(
        "P16",
        "appends",
        "Each of them also writes the row of the answer and its sum, in one statement with the earlier values of both.",
    ),
    _Reason(
        "P17",
        "page of the slowest filter",
        "The sessions of the month are sorted by a value that no index has together with the time.",
    ),
    _Reason(
        "P10",
        "WAL",
        "An import also writes the answers, their sums and the tool calls, with their indexes.",
    ),
    _Reason(
        "P10",
        "pages of",
        "PostgreSQL decompresses the texts of the messages. Events stored whole are faster than they were, since pages "
        "are joined as bytes: the pages take 1.0 to 1.1 times the CPU of pages before events referred to texts.",
    ),
    _Reason(
        "P7",
        "session of",
        "Rows become objects, unlike with COPY, and the event loop wakes up when it is faster than PostgreSQL. "
        "There, summing the sizes that end a page takes as long as reading small rows.",
    ),
)


def missed_goals(rows: Iterable[Row]) -> Details:
    cells = [(row.goal, row.what, _reason(row)) for row in rows if row.missed]
    return Details("Missed goals", ("goal", "what", "reason"), cells)


def _reason(row: Row) -> str:
    reasons = (each.reason for each in _REASONS if each.goal == row.goal and row.what.startswith(each.what))
    return next(reasons, "not known")
