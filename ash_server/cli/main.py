"""The command `ash`: how everything is called.

What a command does is imported when it runs, so that `--help` and `ash parse` need not wait for a server.
"""

import os
import signal
import sys
from functools import partial
from importlib.metadata import version
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any, BinaryIO, NoReturn, Unpack

from ash_server.errors import missing_package_message

try:
    import rich_click as click
    from click import get_current_context
    from click.core import ParameterSource
except ModuleNotFoundError as error:  # the command without the extra that it needs
    raise SystemExit(f"ash: {missing_package_message(error)}") from None

if TYPE_CHECKING:
    from ash_server.db.events import EventFilter
    from ash_server.db.messages import MessageFilter

KINDS = ("message", "record", "chunk")
ROLES = ("user", "assistant", "system", "tool")
PLACES = ("said", "conversation", "results", "everything")
BLOCK_TYPES = ("text", "thinking", "tool_use", "tool_result", "image", "file", "raw")

_OF_EACH_SESSION = 3
_INTERRUPTED = 128 + signal.SIGINT


def _not_empty(_: click.Context, parameter: click.Parameter, value: Any) -> Any:
    given = value if isinstance(value, tuple) else (value,)
    if any(each is not None and not each.strip() for each in given):
        raise click.BadParameter("it is empty: `ash sessions` lists what could be meant")
    return value


json_option = click.option("--json", "as_json", is_flag=True, help="One JSON document, for programs.")
source_option = click.option(
    "--source", metavar="NAME", help="The format, for example claude. Left out, it is recognised."
)
url_option = click.option(
    "--url", metavar="URL", help="The server; ASH_URL, else the one that listens on this machine."
)
host_option = click.option("--host", help="Where to listen; ASH_HOST, else 127.0.0.1.")
port_option = click.option(
    "--port", type=click.IntRange(0, 65535), help="ASH_PORT, else 4100; 0: any free one."
)


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.rich_config({"text_paragraph_linebreaks": "\n\n", "padding_helptext_first_line": (0, 0, 1, 0)})
@click.version_option(version("ash-messages"), "--version", prog_name="ash")
def ash() -> None:
    """Keeps every agent message exactly as it was written, and reads it as typed content.

    The store is an embedded PostgreSQL below ASH_HOME (~/.ash), or the PostgreSQL that ASH_DATABASE_URL names.

    \b
    ash demo                          everything at once, with sample sessions
    ash import --discover             what your own CLIs have kept; --all brings it in
    ash parse session.jsonl           read a file, without any database
    """


@ash.command()
@host_option
@port_option
def demo(host: str | None, port: int | None) -> None:
    """Start Ash with sample sessions, open the viewer, and print the addresses.

    Makes the store if there is none, and serves until Ctrl-C. Run again, it changes nothing but the session that is
    written while you watch, which begins anew.
    """
    from ash_server.cli.demo import run_demo
    from ash_server.cli.serve import settings_with

    run_demo(settings_with(host, port))


@ash.command()
@host_option
@port_option
def serve(host: str | None, port: int | None) -> None:
    """Start the server.

    Beyond this machine it starts only with ASH_ALLOW_UNAUTHENTICATED=1: it asks nobody for a key.

    \b
    ash serve --port 8080
    """
    from ash_server.cli.serve import run_server, settings_with

    run_server(settings_with(host, port))


@ash.command("open")
@click.argument("what", metavar="[SESSION|FILE]", required=False, callback=_not_empty)
@click.option(
    "--no-store",
    "stores",
    flag_value=False,
    default=True,
    help="Only show the FILE: one page in a file of its own, without any database.",
)
@url_option
def open_(what: str | None, url: str | None, *, stores: bool) -> int:
    """Open a session in the browser, or the list of all.

    SESSION is an id, the beginning of one, or the name the session has where it comes from. A FILE, which is a
    transcript, is imported first. Where no server runs, this is one until Ctrl-C. The address is printed, too; where
    there is no desktop, or ASH_NO_BROWSER is set, nothing else is done with it.

    \b
    ash open                          the list of all sessions
    ash open 0d5c0a1e
    ash open session.jsonl
    ash open session.jsonl --no-store
    """
    if not stores and (what is None or url is not None):
        raise click.UsageError("--no-store shows a FILE, without any server.")
    from ash_server.cli import open as command

    return command.open_page(what, url) if stores else command.open_alone(Path(str(what)))


@ash.command("import")
@click.argument("paths", metavar="[PATH...]", nargs=-1, type=click.Path(path_type=Path))
@click.option("--all", "everything", is_flag=True, help="Whatever --discover lists.")
@click.option(
    "--discover", is_flag=True, help="Only list the transcripts that the CLIs of this machine keep."
)
@source_option
@click.option("--as", "name", metavar="NAME", help="What to call the session of a single file.")
@click.option("--replace", is_flag=True, help="Delete what is stored of these files, and import them anew.")
@json_option
def import_(
    paths: tuple[Path, ...],
    *,
    everything: bool,
    discover: bool,
    source: str | None,
    name: str | None,
    replace: bool,
    as_json: bool,
) -> int:
    """Store transcripts, each as a session.

    Takes files of lines (*.jsonl, *.jsonl.zst) or of one JSON document (*.json), and folders of them; a session of
    OpenCode is its file below storage/session. Importing again changes nothing and continues where a file has
    grown. Lines that cannot be stored are reported and passed over; the exit code is then 1.

    \b
    ash import --discover             what the CLIs of this machine keep
    ash import --all                  all of that
    ash import ~/.claude/projects
    ash import session.jsonl --as "the failing test"
    """
    if bool(paths) + everything + discover != 1:
        raise click.UsageError(
            "A PATH, --all and --discover exclude each other."
            if paths or discover
            else "Name a PATH, or give --all for what `ash import --discover` lists."
        )
    return _discover(as_json) if discover else _import(paths, (source, name, replace), as_json)


def _discover(as_json: bool) -> int:
    from ash_server.cli import discover

    found = discover.find_transcripts()
    (discover.print_found_json if as_json else discover.print_found)(found)
    return discover.complain_of(found)


def _import(paths: tuple[Path, ...], wishes: tuple[str | None, str | None, bool], as_json: bool) -> int:
    """Everything that is discovered, where no path is named."""
    from ash_server.cli import transfer
    from ash_server.cli.store import with_store

    wanted = transfer.Wishes(*wishes)
    transfer.warn_of_source(wanted.source)
    report = with_store(
        lambda conn: (
            transfer.import_paths(conn, paths, wanted) if paths else transfer.import_discovered(conn, wanted)
        )
    )
    (transfer.print_report_json if as_json else transfer.print_report)(report)
    transfer.complain_of(report)
    return 0 if report.complete else 1


@ash.command()
@click.argument("session", required=False, callback=_not_empty)
@click.option("--all", "everything", is_flag=True, help="Every session, into the folder that -o names.")
@click.option(
    "-o", "--output", "target", type=click.Path(path_type=Path), help="A file, or a folder with --all."
)
@click.option(
    "--format",
    "form",
    type=click.Choice(["jsonl", "events"]),
    default="jsonl",
    show_default=True,
    help="The lines as they came; or the session's events, one on a line.",
)
def export(session: str | None, everything: bool, target: Path | None, form: str) -> None:
    """Give back the bytes of an imported file, or its events.

    SESSION is an id, the beginning of one, or the name the session has where it comes from. A file of events can be
    imported as it is.

    \b
    ash export 0d5c0a1e > session.jsonl
    ash export 0d5c0a1e --format events > session.events.jsonl
    ash export --all -o sessions/
    """
    if everything == bool(session) or (everything and target is None):
        raise click.UsageError("Name a SESSION, or give --all and a folder with -o.")
    from ash_server.cli import transfer
    from ash_server.cli.output.terminal import counted
    from ash_server.cli.store import with_store

    if session:
        with_store(partial(transfer.export_one, reference=session, target=target, form=form))
    elif target:
        count = with_store(partial(transfer.export_all, folder=target, form=form))
        click.echo(f"{counted(count, 'session')} in {target}")


@ash.command()
@click.option(
    "--session",
    "name",
    metavar="NAME",
    callback=_not_empty,
    help="What to call it; or the id of one that is there, or 8 digits of its beginning and more.",
)
@source_option
@url_option
@click.option(
    "--prompt", metavar="TEXT", help="What the user said: the streams of Claude and Codex do not hold it."
)
@click.option("--no-end", "ends", flag_value=False, default=True, help="The stream will go on later.")
@click.option(
    "--wait",
    type=click.FloatRange(0),
    default=60,
    show_default=True,
    metavar="SECONDS",
    help="How long a server may be away after the last line, before what it lacks is kept in a file.",
)
@click.option("--resume", metavar="RUN/LINE", help="What such a file continues, as it was told then.")
def ingest(
    name: str | None,
    source: str | None,
    url: str | None,
    *,
    prompt: str | None,
    ends: bool,
    wait: float,
    resume: str | None,
) -> int:
    """Store a stream while it passes.

    Reads lines from standard input, passes every byte on to standard output at once, and sends the lines to the server,
    each once, also where the server is away for a while. When the input ends, what is open in the session is closed.

    \b
    claude -p "Fix the test" --output-format stream-json --verbose | ash ingest --session fix --prompt "Fix the test"
    codex exec --json "Fix the test" | ash ingest --session fix --prompt "Fix the test"
    """
    if sys.stdin is None or sys.stdin.isatty():
        raise click.UsageError(
            "It reads a stream from standard input: claude -p … --output-format stream-json --verbose | ash ingest"
        )
    from ash_server.cli.client import server_at
    from ash_server.cli.ingest import ingest as command

    if source is not None:
        from ash_server.cli.transfer import warn_of_source

        warn_of_source(source)
    run, first = _resumed(resume) if resume else (command.new_run(), 1)
    server, name = server_at(url), name or command.made_up_name(run)
    return command.ingest(server, command.Wishes(name, source, prompt, ends, wait, run, first))


def _resumed(place: str) -> tuple[str, int]:
    run, _, number = place.rpartition("/")
    if not run or not number.isdecimal() or number == "0":
        raise click.UsageError(
            "--resume takes RUN/LINE, as `ash ingest` told it, for example 3f0c9a7e55d1b2c4/12."
        )
    return run, int(number)


@ash.command()
@click.argument("session", callback=_not_empty)
@click.option("--after", type=click.IntRange(0, 2**53 - 1), help="Only what comes after this sequence.")
@click.option("-n", "--last", type=click.IntRange(0, 1000), help="Begin with the last so many events.")
@click.option("--until-end", is_flag=True, help="Stop when no turn is open, or the one that is has ended.")
@click.option("--no-follow", "follows", flag_value=False, default=True, help="Stop behind what is there.")
@click.option("--json", "as_json", is_flag=True, help="One event on each line, as the API sends it.")
@url_option
def tail(
    session: str,
    url: str | None,
    *,
    after: int | None,
    last: int | None,
    until_end: bool,
    follows: bool,
    as_json: bool,
) -> int:
    """Follow a session, until Ctrl-C.

    SESSION is an id, the beginning of one, or the name the session has where it comes from; it need not be there yet.
    Goes on where it was when the server comes back.

    \b
    ash tail fix
    ash tail fix -n 20 --until-end
    ash tail fix --json | jq -r 'select(.type == "tool_call").payload.toolName'
    """
    if after is not None and last is not None:
        raise click.UsageError("--after and --last exclude each other.")
    from ash_server.cli import tail as command
    from ash_server.cli.client import server_at

    wishes = command.Wishes(after, last, follows, until_end, as_json)
    return command.tail(server_at(url), session, wishes)


@ash.command()
@click.argument("file", type=click.File("rb"), required=False)
@click.option(
    "--speed",
    type=click.FloatRange(0, min_open=True),
    default=1,
    show_default=True,
    help="How many times as fast.",
)
def replay(file: BinaryIO | None, speed: float) -> None:
    """Write the lines of a recorded stream as fast as they came.

    Without a FILE it is a recording that comes with Ash, of some ten seconds: to see streams without any CLI.

    \b
    ash replay | ash ingest --session kite
    """
    from ash_server.cli import replay as command

    command.replay(file, speed)


@ash.command()
@click.argument("file", type=click.File("rb"), default="-")
@source_option
@click.option(
    "--json/--view", "as_json", default=None, help="Typed JSON, or a view for people (on a terminal)."
)
def parse(file: BinaryIO, source: str | None, as_json: bool | None) -> int:
    """Read a file as typed content, without any database.

    Gives one JSON document for each line, or for a file that is one JSON document. FILE is - for standard input.

    \b
    ash parse session.jsonl
    tail -f session.jsonl | ash parse --json | jq .parsed
    """
    from ash_server.cli import parse as command

    wants_json = not sys.stdout.isatty() if as_json is None else as_json
    return command.parse(file, source, command.show_json if wants_json else command.show_view)


@ash.command()
@click.option("--limit", type=click.IntRange(1, 1000), default=100, show_default=True)
@json_option
def sessions(limit: int, as_json: bool) -> None:
    """List sessions, newest activity first."""
    from ash_server.cli.browse import print_sessions
    from ash_server.cli.store import with_store

    with_store(partial(print_sessions, limit=limit, as_json=as_json))


@ash.command()
@click.argument("session", callback=_not_empty)
@click.option(
    "--after", type=click.IntRange(0, 2**53 - 1), default=0, help="Only what comes after this sequence."
)
@click.option("--limit", type=click.IntRange(1, 1000), default=100, show_default=True)
@click.option(
    "--kind", "kinds", type=click.Choice(KINDS), multiple=True, default=KINDS[:2], show_default=True
)
@click.option("--role", type=click.Choice(ROLES))
@click.option("--type", type=click.Choice(BLOCK_TYPES), help="Only messages with a block of this type.")
@click.option("--json", "form", flag_value="json", help="One JSON document, as the API answers.")
@click.option("--raw", "form", flag_value="raw", help="The stored texts.")
@click.option(
    "--standard",
    "form",
    flag_value="standard",
    help="One JSON document for each standard message: all of them, or of about --limit stored ones.",
)
def messages(session: str, form: str | None, **page: Unpack["MessageFilter"]) -> None:
    """Show the messages of a session as typed content.

    SESSION is an id, the beginning of one, or the name the session has where it comes from.

    \b
    ash messages 0d5c0a1e --type tool_use
    ash messages 0d5c0a1e --standard | jq .usage
    """
    from ash_server.cli import browse
    from ash_server.cli.store import with_store

    if form == "standard":
        bounds = _bounds(page)
        with_store(lambda conn: browse.print_standard(conn, session, **bounds))
        return
    show = {"json": browse.show_json, "raw": browse.show_raw}.get(form or "", browse.show_view)
    with_store(lambda conn: browse.print_messages(conn, session, show, **page))


def _bounds(page: "MessageFilter") -> dict[str, Any]:
    """What of a page's wishes standard messages can have: they are made of all that is stored."""
    if page["role"] or page["type"] or tuple(page["kinds"]) != KINDS[:2]:
        raise click.UsageError(
            "--kind, --role and --type choose stored messages, and --standard reads all of them."
        )
    given = get_current_context().get_parameter_source("limit") is ParameterSource.COMMANDLINE
    return {"after": page["after"], "limit": page["limit"] if given else None}


@ash.command()
@click.argument("words", nargs=-1, required=True)
@click.option(
    "--in",
    "place",
    type=click.Choice(PLACES),
    default=PLACES[1],
    show_default=True,
    help="What the user and the assistant said; also what was thought, and the calls of tools; what tools gave, and "
    "every other text; all of it.",
)
@click.option("--source", metavar="NAME", help="Only in sessions of this format, for example claude.")
@click.option("--session", callback=_not_empty, help="Only in this one.")
@click.option("--role", type=click.Choice(ROLES), help="Only what is theirs.")
@click.option(
    "--per-session", type=click.IntRange(1, 100), help="Only so many of each session; 3, where none is named."
)
@click.option(
    "--after", metavar="CURSOR", callback=_not_empty, help="The next page, as the last one named it."
)
@click.option("--limit", type=click.IntRange(1, 100), default=20, show_default=True)
@json_option
def search(
    words: tuple[str, ...], session: str | None, *, as_json: bool, per_session: int | None, **wishes: Any
) -> None:
    """Search what was said and done in all sessions, newest first.

    Every word is looked for, as the beginning of a word; "these words" as they follow each other; -word excludes, and
    or stands between two wishes. A shell takes quotes away and options are told by their dash: quote the whole.

    \b
    ash search summer time
    ash search '"summer time" -winter' --in everything
    ash search README.md --session 363175b0
    """
    from ash_server.cli import search as command
    from ash_server.cli.store import with_store

    few = per_session or (None if session else _OF_EACH_SESSION)
    wanted = partial(command.search, q=" ".join(words), session=session, per_session=few, **wishes)
    (command.show_json if as_json else command.show_view)(with_store(wanted))


@ash.command()
@click.argument("paths", metavar="[PATH...]", nargs=-1, type=click.Path(path_type=Path, exists=True))
@json_option
def drift(paths: tuple[Path, ...], as_json: bool) -> int:
    """List what no table of Ash covers: unknown types and malformed blocks.

    They are kept whole, as raw blocks. Without a PATH, looks at all stored messages; with files or folders, reads
    these, without any database.

    \b
    ash drift ~/.claude/projects
    """
    from ash_server.cli import drift as command
    from ash_server.cli.store import with_store

    found = command.find_in_files(paths) if paths else with_store(command.find_in_store)
    (command.show_json if as_json else command.show_view)(found)
    return 0 if found.complete else 1


@ash.command()
@click.argument("sessions", metavar="[SESSION...]", nargs=-1, callback=_not_empty)
@click.option("--diff", is_flag=True, expose_value=False, help="Show what differs: it does nothing else.")
@json_option
def reparse(sessions: tuple[str, ...], as_json: bool) -> None:
    """Show what this version of Ash reads differently than when a message was stored or last reindexed.

    Writes nothing; `ash reindex` does. Looks at all sessions where none is named.

    \b
    ash reparse --diff
    """
    from ash_server.cli import reparse as command
    from ash_server.cli.store import with_store

    comparison = with_store(partial(command.compare, references=sessions))
    (command.show_json if as_json else command.show_view)(comparison)


@ash.command()
@click.argument("sessions", metavar="[SESSION...]", nargs=-1, callback=_not_empty)
def reindex(sessions: tuple[str, ...]) -> None:
    """Derive anew what searches, filters and lists need of stored messages, with this version's parser.

    Renews kind, role, source and types of messages, title, times and drift of sessions, and the words that are
    searched; of all of them where none is named. Stored texts, ids and sequences stay as they are, and so does
    whatever a writer said: a role or a source that was given, a title. Safe while others write; may be interrupted
    and begun again.

    \b
    ash reindex
    """
    from ash_server.cli import reparse as command
    from ash_server.cli.store import with_store

    renewed = with_store(partial(command.reindex, references=sessions))
    click.echo(f"{renewed.read} messages read, {renewed.written} derived anew")


def _event_types(_ctx: click.Context, _param: click.Parameter, types: str | None) -> list[str] | None:
    from ash_server.db.events import types_in

    return None if types is None else types_in(types)


class _EventsGroup(click.RichGroup):
    """`ash events SESSION`, beside what is done to events."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if args and args[0] not in (*self.commands, *ctx.help_option_names):
            args = ["show", *args]
        return super().parse_args(ctx, args)


@ash.group(cls=_EventsGroup)
def events() -> None:
    """The log of events of a session: `ash events SESSION` lists it.

    \b
    ash events 0d5c0a1e --collapse
    ash events rebuild
    """


@events.command("show")
@click.argument("session", callback=_not_empty)
@click.option(
    "--after", type=click.IntRange(0, 2**53 - 1), default=0, help="Only what comes after this sequence."
)
@click.option("--limit", type=click.IntRange(1, 1000), default=100, show_default=True)
@click.option("--collapse", is_flag=True, help="Without the pieces of what has become whole.")
@click.option(
    "--type",
    "types",
    metavar="TYPES",
    callback=_event_types,
    help="Only these types of events, separated by commas.",
)
@json_option
def show_events(session: str, *, as_json: bool, **page: Unpack["EventFilter"]) -> None:
    """List the events of a session, one on a line.

    SESSION is an id, the beginning of one, or the name the session has where it comes from.
    """
    from ash_server.cli import events as command
    from ash_server.cli.store import with_store

    show = command.show_json if as_json else command.show_view
    with_store(lambda conn: command.print_events(conn, session, show, **page))


@events.command()
@click.argument("sessions", metavar="[SESSION...]", nargs=-1, callback=_not_empty)
@click.option(
    "--all", "everything", is_flag=True, help="Every session, also those that this version derived."
)
def rebuild(sessions: tuple[str, ...], everything: bool) -> None:
    """Derive events anew from the stored lines, with this version's normaliser.

    Of the sessions that are named; else of those whose events another version of Ash derived, or nobody. Stored lines
    and posted events stay as they are. Whoever follows a session is told to begin anew, and never sees half.
    """
    if sessions and everything:
        raise click.UsageError("A SESSION and --all exclude each other.")
    from ash_server.cli import events as command
    from ash_server.cli.output.terminal import counted
    from ash_server.cli.store import with_store

    rebuilt = with_store(partial(command.rebuild, references=sessions, everything=everything))
    click.echo(
        f"{counted(rebuilt.sessions, 'session')}, {counted(rebuilt.messages, 'message')} read, "
        f"{counted(rebuilt.events, 'event')} written"
    )


@ash.group()
def db() -> None:
    """The database below Ash."""


@db.command()
def upgrade() -> None:
    """Bring the database to this version of Ash."""
    from ash_server.cli.database import upgrade_database

    upgrade_database()


@db.command()
def url() -> None:
    """Print the address of the database, for psql and its like."""
    from ash_server.cli.database import print_url

    print_url()


@ash.command()
def openapi() -> None:
    """Print the OpenAPI document of the API."""
    from ash_server.app import openapi_json

    click.echo(openapi_json(), nl=False)


def main() -> NoReturn:
    signal.signal(signal.SIGTERM, _terminate)
    for stream in filter(None, (sys.stdout, sys.stderr)):  # one that was closed is None
        stream.reconfigure(errors="backslashreplace")
    sys.exit(run())


def run() -> int:
    """The exit code; what went wrong is told in one line."""
    try:
        code = ash.main(prog_name="ash", standalone_mode=False) or 0
        if sys.stdout:
            sys.stdout.flush()
        return code
    except (KeyboardInterrupt, click.Abort):
        return _fail("interrupted", _INTERRUPTED)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except click.ClickException as error:
        return _fail(_usage(error), error.exit_code)
    except Exception as error:
        if os.environ.get("ASH_DEBUG"):
            raise
        return _fail(_reason(error), 1)


def _fail(reason: str, code: int) -> int:
    from ash_server.cli.output.terminal import complain

    complain(reason)
    return code


def _usage(error: click.ClickException) -> str:
    context = error.ctx if isinstance(error, click.UsageError) else None
    hint = f" (`{context.command_path} --help` tells more)" if context else ""
    return error.format_message().rstrip(".") + hint


def _reason(error: Exception) -> str:
    if isinstance(error, ModuleNotFoundError) and not str(error.name).startswith("ash_"):
        return missing_package_message(error)
    from psycopg import Error as DatabaseError
    from psycopg import OperationalError

    from ash_server.db.embedded.binaries import EmbeddedPostgresError
    from ash_server.errors import AshError

    if isinstance(error, OSError) and error.filename:
        return f"{error.filename}: {error.strerror}"
    if isinstance(error, (AshError, EmbeddedPostgresError, OSError, UnicodeError)):
        return str(error)
    if isinstance(error, OperationalError):
        return f"the database does not answer: {error}"
    if isinstance(error, DatabaseError):
        return f"the database refused: {error}"
    return f"{type(error).__name__}: {error} (this is a fault of Ash; ASH_DEBUG=1 shows where)"


def _terminate(signal_number: int, frame: FrameType | None) -> None:
    """Leaves every context on the way out, so that the embedded PostgreSQL does not stay behind."""
    sys.exit(128 + signal_number)
