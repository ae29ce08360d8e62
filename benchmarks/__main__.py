"""`python -m benchmarks [--smoke] [--only P1,P4]`"""

import argparse
import asyncio
import logging
from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

import psycopg

import benchmarks
from benchmarks import (
    adapters,
    appending,
    following,
    http,
    importing,
    keys,
    listing,
    parsing,
    reading,
    redacting,
    report,
    session_lists,
    storing,
    telemetry,
    usage,
    viewer,
)
from benchmarks.database import database
from benchmarks.samples import Samples, load
from benchmarks.table import Details, Row

Results = tuple[list[Row], list[Details]]


class Bench(NamedTuple):
    goals: frozenset[str]
    measure: Callable[[Samples, str, bool], Results]
    """Arguments: samples, database URL, and True for a smoke run."""


def _parsing(samples: Samples, _url: str, smoke: bool) -> Results:
    return parsing.measure(samples, parsing.SMOKE if smoke else parsing.FULL)


def _reading(samples: Samples, _url: str, smoke: bool) -> Results:
    return reading.measure(samples, reading.SMOKE if smoke else reading.FULL)


def _http(samples: Samples, url: str, smoke: bool) -> Results:
    return asyncio.run(http.measure(url, samples, http.SMOKE if smoke else http.FULL)), []


def _appending(_samples: Samples, url: str, smoke: bool) -> Results:
    return asyncio.run(appending.measure(url, appending.SMOKE if smoke else appending.FULL))


def _listing(_samples: Samples, url: str, smoke: bool) -> Results:
    return asyncio.run(listing.measure(url, listing.SMOKE if smoke else listing.FULL)), []


def _following(_samples: Samples, url: str, smoke: bool) -> Results:
    return asyncio.run(following.measure(url, following.SMOKE if smoke else following.FULL)), []


def _viewer(_samples: Samples, url: str, smoke: bool) -> Results:
    return asyncio.run(viewer.measure(url, viewer.SMOKE if smoke else viewer.FULL)), []


def _storing(samples: Samples, url: str, smoke: bool) -> Results:
    return asyncio.run(storing.measure(url, samples, storing.SMOKE if smoke else storing.FULL)), []


def _importing(samples: Samples, url: str, smoke: bool) -> Results:
    return asyncio.run(importing.measure(url, samples, importing.SMOKE if smoke else importing.FULL)), []


def _keys(samples: Samples, url: str, smoke: bool) -> Results:
    return asyncio.run(keys.measure(url, samples, keys.SMOKE if smoke else keys.FULL)), []


def _redacting(_samples: Samples, _url: str, smoke: bool) -> Results:
    return asyncio.run(redacting.measure(redacting.SMOKE if smoke else redacting.FULL))


def _usage(_samples: Samples, url: str, smoke: bool) -> Results:
    return asyncio.run(usage.measure(url, usage.SMOKE if smoke else usage.FULL)), []


def _session_lists(_samples: Samples, url: str, smoke: bool) -> Results:
    size = session_lists.SMOKE if smoke else session_lists.FULL
    return asyncio.run(session_lists.measure(url, size)), []


def _telemetry(_samples: Samples, url: str, smoke: bool) -> Results:
    size = telemetry.SMOKE if smoke else telemetry.FULL
    return asyncio.run(telemetry.measure(url, size)), []


def _adapters(_samples: Samples, url: str, smoke: bool) -> Results:
    return asyncio.run(adapters.measure(url, adapters.SMOKE if smoke else adapters.FULL)), []


_BENCHES = (
    Bench(frozenset({"P1", "P2", "P3"}), _parsing),
    Bench(frozenset({"P4"}), _reading),
    Bench(frozenset({"P5"}), _http),
    Bench(frozenset({"P6"}), _appending),
    Bench(frozenset({"P7", "P8"}), _listing),
    Bench(frozenset({"P9"}), _following),
    Bench(frozenset({"P10"}), _storing),
    Bench(frozenset({"P11"}), _viewer),
    Bench(frozenset({"P12"}), _importing),
    Bench(frozenset({"P14"}), _adapters),
    Bench(frozenset({"P15"}), _redacting),
    Bench(frozenset({"P16"}), _usage),
    Bench(frozenset({"P17"}), _session_lists),
    Bench(frozenset({"P18"}), _telemetry),
    # Last: from its first key on, a database serves no requests without one.
    Bench(frozenset({"P13"}), _keys),
)
_GOALS: Mapping[str, Bench] = {goal: bench for bench in _BENCHES for goal in sorted(bench.goals)}


def main() -> None:
    logging.disable(logging.INFO)  # peers log a lot
    arguments = _arguments()
    samples = load(smoke=arguments.smoke)
    rows: list[Row] = []
    tables: list[Details] = []
    with database(durable=not arguments.smoke) as url:
        about = report.about(samples.origin, _version(url), smoke=arguments.smoke)
        for bench in _chosen(arguments.only):
            bench_rows, bench_tables = bench.measure(samples, url, arguments.smoke)
            rows += bench_rows
            tables += bench_tables
    rows = sorted((row for row in rows if row.goal in arguments.only), key=lambda row: int(row.goal[1:]))
    print(report.render(rows, tables, about))
    if not arguments.smoke and arguments.only == list(_GOALS):
        report.write(rows, tables, about)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=benchmarks.__doc__)
    parser.add_argument("--smoke", action="store_true", help="small, without the corpus, writing no file")
    parser.add_argument(
        "--only", type=_goals, default=list(_GOALS), metavar="P1,P4", help="only these goals, writing no file"
    )
    return parser.parse_args()


def _goals(text: str) -> list[str]:
    named = text.upper().split(",")
    if unknown := set(named) - set(_GOALS):
        raise argparse.ArgumentTypeError(
            f"unknown goals: {', '.join(sorted(unknown))}; known are {', '.join(_GOALS)}"
        )
    return named


def _chosen(goals: list[str]) -> Iterator[Bench]:
    return (bench for bench in _BENCHES if bench.goals & set(goals))


def _version(url: str) -> str:
    with psycopg.connect(url) as conn:
        return conn.info.parameter_status("server_version") or ""


if __name__ == "__main__":
    main()
