"""Entry point of the `ash` command: the group of all commands, and the outermost error handling."""

import os
import signal
import sys
from types import FrameType
from typing import NoReturn

from ash_server.errors import missing_package_message

try:
    import rich_click as click

    from ash_server.cli.common.lazy_group import LazyCommand, LazyGroup
    from ash_server.cli.common.moved import moved_command
except ModuleNotFoundError as error:  # installed without its requirements
    raise SystemExit(f"ash: {missing_package_message(error)}") from None

_INTERRUPTED = 128 + signal.SIGINT

COMMANDS = {
    "archive": ("labels.archive", "Leave sessions out of lists; searches still find them."),
    "backup": ("backup", "Write the whole store to a file."),
    "blame": ("blame.command", "Find the sessions that wrote the lines of a file or of a commit."),
    "budget": ("budget", "Set, list and delete budgets."),
    "facts": ("facts", "Show the place, the tools, the files and the plan of a session."),
    "changes": ("changes", "Show the files that a session changed."),
    "compare": ("compare", "Show two sessions side by side: facts, tools, files and prompts."),
    "completion": ("completion", "Print a script that completes commands in bash, zsh or fish."),
    "continue": ("continue_", "Write a session in the format of another agent, which continues it there."),
    "db": ("db", "Manage the database."),
    "delete": ("delete", "Delete sessions with their messages and events, or single messages of a session."),
    "demo": ("demo", "Start Ash with sample sessions, open the viewer, and print the addresses."),
    "doctor": ("doctor", "Check the database, and show its sizes."),
    "drift": (
        "drift.command",
        "List content that Ash does not recognize: unknown types and malformed blocks.",
    ),
    "events": ("events", "Show the event log of a session: `ash events SESSION`."),
    "export": (
        "export",
        "Write the bytes of an imported file, its events, a trajectory for evaluation tools, or traces for "
        "OpenTelemetry.",
    ),
    "forward": (
        "forward.command",
        "Send redacted sessions as traces to an OpenTelemetry backend, and follow them until Ctrl-C.",
    ),
    "hooks": ("hooks.command", "Let agents store their transcripts after each turn."),
    "import": ("import_.command", "Store transcripts, each as a session."),
    "ingest": ("ingest.command", "Store a stream while passing it through."),
    "keys": ("keys", "Create, list and revoke the keys of the server."),
    "mcp": ("mcp", "Serve tools for agents to search and read the sessions."),
    "messages": ("messages", "Show the messages of a session as typed content."),
    "note": ("labels.note", "Set the note of a session, in Markdown, or print it."),
    "open": ("open", "Open a session in the browser, or the list of all sessions."),
    "openapi": ("openapi", "Print the OpenAPI document of the API."),
    "parse": ("parse", "Read a file as typed content, without a database."),
    "prices": ("prices", "Show and update the prices that costs are calculated with."),
    "prune": ("prune", "Delete sessions without recent activity."),
    "push": ("push.command", "Send transcripts to a server, each as a session."),
    "reindex": (
        "reindex.command",
        "Read stored messages again with this version, and update the results.",
    ),
    "rename": ("labels.rename", "Give a session another title, which imports keep."),
    "replay": ("replay", "Write the lines of a recorded stream at their original speed."),
    "restore": ("restore", "Fill an empty store from a backup."),
    "resume": ("resume", "Continue a session in the agent that wrote it."),
    "cold": ("cold", "Move the texts of old sessions to compressed archives."),
    "retention": ("retention", "Delete sessions some time after their last change."),
    "scan": ("scan", "List tokens, keys and passwords in sessions by kind and place, never their values."),
    "search": ("search", "Search the titles and texts of all sessions, newest results first."),
    "self": ("self_", "Show the version, the paths and the store, and warn of outdated parts."),
    "serve": ("serve", "Start the server."),
    "projects": ("projects", "List projects, newest activity first."),
    "sessions": ("sessions", "List sessions, newest activity first."),
    "service": ("service.command", "Run `ash watch` as a service of this user."),
    "share": (
        "share",
        "Print a link that shows a session without a key, up to its present end and redacted.",
    ),
    "star": ("labels.star", "Mark sessions with a star."),
    "statusline": ("statusline.command", "Print the costs of a session, for the status line of Claude Code."),
    "tag": ("labels.tag", "Add or remove tags of a session, or print its tags."),
    "tail": ("tail", "Follow a session, until Ctrl-C."),
    "watch": (
        "watch.command",
        "Store the transcripts of all agents while they are written.",
    ),
    "usage": ("usage.command", "Show tokens and costs by day, or by one or two other dimensions."),
}
"""Module below `ash_server.cli` and first line of the help, by command."""

COMMAND_GROUPS = {
    "Get started": ("demo", "import", "open"),
    "Store": ("watch", "service", "push", "hooks", "ingest", "replay"),
    "Read": (
        *("sessions", "projects", "search", "messages", "events", "tail", "facts", "changes"),
        *("compare", "blame", "parse", "export", "forward", "mcp"),
    ),
    "Costs": ("usage", "budget", "prices", "statusline"),
    "Continue": ("resume", "continue"),
    "Label and share": ("rename", "star", "tag", "note", "archive", "scan", "share"),
    "Server": ("serve", "keys", "openapi"),
    "Maintenance": (
        *(
            "self",
            "doctor",
            "drift",
            "reindex",
            "backup",
            "restore",
            "delete",
            "prune",
            "retention",
            "cold",
            "db",
            "completion",
        ),
    ),
}
"""Commands by their heading in the help."""


@click.group(
    cls=LazyGroup,
    context_settings={
        "help_option_names": ["-h", "--help"],
        # Not the decorator `rich_config`, which imports the console even if nothing is printed with it.
        "rich_help_config": {
            "text_paragraph_linebreaks": "\n\n",
            "padding_helptext_first_line": (0, 0, 1, 0),
            "command_groups": {
                "ash": [{"name": name, "commands": list(names)} for name, names in COMMAND_GROUPS.items()]
            },
        },
    },
    commands={
        name: LazyCommand(name, f"ash_server.cli.{module}", short_help)
        for name, (module, short_help) in COMMANDS.items()
    },
)
@click.version_option(package_name="ash-messages", prog_name="ash")
def ash() -> None:
    """Store every agent message exactly as it was written, and read it as typed content.

    The store is an embedded PostgreSQL in ASH_HOME (~/.ash), or the PostgreSQL at ASH_DATABASE_URL. With ASH_URL,
    commands that read use that server.

    \b
    ash demo                          a server with sample sessions
    ash import --discover             list the transcripts of your own CLIs; --all imports them
    ash parse session.jsonl           read a file, without a database
    """


ash.add_command(moved_command("ash reparse", "ash reindex --dry-run"))


def main() -> NoReturn:
    signal.signal(signal.SIGTERM, _exit_on_signal)
    for stream in filter(None, (sys.stdout, sys.stderr)):  # a closed one is None
        stream.reconfigure(errors="backslashreplace")
    sys.exit(run())


def run() -> int:
    """Run the command line and return the exit code; errors are printed as one line."""
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
        return _fail(_usage_message(error), error.exit_code)
    except Exception as error:
        if os.environ.get("ASH_DEBUG"):
            raise
        from ash_server.cli.common.error_messages import error_message

        return _fail(error_message(error), 1)


def _fail(reason: str, code: int) -> int:
    from ash_server.cli.common.output.terminal import warn

    warn(reason)
    return code


def _usage_message(error: click.ClickException) -> str:
    context = error.ctx if isinstance(error, click.UsageError) else None
    hint = f" (see `{context.command_path} --help`)" if context else ""
    return error.format_message().rstrip(".") + hint


def _exit_on_signal(signal_number: int, frame: FrameType | None) -> None:
    """Exit by an exception that leaves all contexts, so that the embedded PostgreSQL is stopped."""
    sys.exit(128 + signal_number)
