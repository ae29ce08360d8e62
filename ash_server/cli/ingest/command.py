"""Options of `ash ingest`, its threads, and its final report."""

import os
import sys
import threading
import time
from shlex import join, quote
from uuid import UUID, uuid4

import rich_click as click

from ash_client import ApiError, AshClient
from ash_client.requests import get_session
from ash_client.retry import NEVER
from ash_server.cli.common.client import url_arguments
from ash_server.cli.common.options import reject_empty, source_option, url_option, warn_of_unknown_source
from ash_server.cli.common.output.terminal import counted, visible, warn
from ash_server.cli.ingest.line_queue import LineQueue
from ash_server.cli.ingest.passthrough import Interrupts, catch_interrupts, pass_through
from ash_server.cli.ingest.progress import Progress
from ash_server.cli.ingest.sender import IngestOptions, Sender
from ash_server.cli.tail import tail_command
from ash_server.settings import Settings
from ash_server.transfer.agents import declare
from ash_server.transfer.importing.lines import MAX_LINE_BYTES
from ash_shared.providers import discover


@click.command("ingest")
@click.option(
    "--session",
    "name",
    metavar="NAME",
    callback=reject_empty,
    help="Name (external id) of the session; or the id of an existing one, or at least its first 8 digits.",
)
@source_option
@url_option
@click.option(
    "--prompt",
    metavar="TEXT",
    help="The user's prompt, which the streams of Claude and Codex do not contain.",
)
@click.option(
    "--no-end", "ends", flag_value=False, default=True, help="Leave the turn open: the stream will continue."
)
@click.option(
    "--wait",
    type=click.FloatRange(0),
    default=60,
    show_default=True,
    metavar="SECONDS",
    help="How long to wait for an unavailable server after the last line, before the rest is saved to a file.",
)
@click.option("--resume", metavar="RUN/LINE", help="Continue an interrupted run, with the value it printed.")
def command(
    name: str | None,
    source: str | None,
    url: str | None,
    *,
    prompt: str | None,
    ends: bool,
    wait: float,
    resume: str | None,
) -> int:
    """Store a stream while passing it through.

    Reads lines from standard input, passes every byte to standard output at once, and sends each line to the server.
    While the server is unavailable, lines are queued; each line is stored once. When the input ends, open texts, tool
    calls and turns are closed.

    \b
    claude -p "Fix the test" --output-format stream-json --verbose | ash ingest --session fix --prompt "Fix the test"
    codex exec --json "Fix the test" | ash ingest --session fix --prompt "Fix the test"
    """
    if sys.stdin is None or sys.stdin.isatty():
        raise click.UsageError(
            "Pipe a stream to standard input: claude -p … --output-format stream-json --verbose | ash ingest"
        )
    warn_of_unknown_source(source)
    run, first = _parse_resume(resume) if resume else (uuid4().hex[:16], 1)
    name = name or _generate_name(run)
    return _ingest(url, IngestOptions(name, declare(source).source, prompt, ends, wait, run, first))


def _parse_resume(value: str) -> tuple[str, int]:
    run, _, number = value.rpartition("/")
    if not run or not number.isdecimal() or number == "0":
        raise click.UsageError(
            "--resume takes the RUN/LINE that `ash ingest` printed, such as 3f0c9a7e55d1b2c4/12."
        )
    return run, int(number)


def _generate_name(run: str) -> str:
    """Generate and print a name, so that the session can be followed or continued."""
    name = f"stream-{run[:8]}"
    warn(f"the session is named {name}")
    return name


def _ingest(url: str | None, options: IngestOptions) -> int:
    """Pass standard input through and send it; return 0 if every line is stored."""
    settings = Settings.from_environment()
    queue, progress = LineQueue(options.first, MAX_LINE_BYTES), Progress()
    sender = Sender(url, options, queue, progress)
    thread = threading.Thread(target=sender.run, daemon=True)
    with catch_interrupts() as interrupts:
        thread.start()
        pass_through(queue, interrupts, progress)
        queue.end()
        _wait_for_sender(thread, sender, options.wait, interrupts)
    progress.end()
    if sender.is_done:
        queue.close()
        with sender.server:
            _print_summary(sender)
        return 1 if sender.refused else 0
    _save_unsent(sender, options, queue, settings)
    return 1


def _wait_for_sender(
    thread: threading.Thread, sender: Sender, timeout: float, interrupts: Interrupts
) -> None:
    """Wait until everything is sent, the server has been unavailable for too long, or another interrupt arrives."""
    start, count = time.monotonic(), interrupts.count
    while thread.is_alive() and interrupts.count == count:
        thread.join(0.05)
        if time.monotonic() - max(start, sender.availability.last_answer) > timeout:
            return


def _print_summary(sender: Sender) -> None:
    if sender.session is None:
        warn("the input was empty, nothing is stored")
        return
    refused = f", {sender.refused} refused" if sender.refused else ""
    warn(
        f"{counted(sender.stored, 'line')} stored{refused} in session {sender.session}"
        f"{_event_count(sender.server, sender.session)}; view it with `{tail_command(sender.server, sender.session)}`"
    )
    if sender.source is None:
        warn(
            "no format was recognized: JSON is stored as `raw`, other lines as text. If Ash reads the format, name it "
            f"with --source in a new session; known sources: {', '.join(discover())}"
        )


def _event_count(server: AshClient, session: UUID) -> str:
    try:
        count = server.send(get_session(session), NEVER).event_count
        return f", which has {counted(count, 'event')}"
    except ApiError:
        return ""


def _save_unsent(sender: Sender, options: IngestOptions, queue: LineQueue, settings: Settings) -> None:
    """Save the remaining lines and print the command that sends them, with the same ids: some may already be stored."""
    stored = f"{counted(sender.stored, 'line')} stored"
    if queue.is_empty():
        warn(f"{stored}, but the end of the stream could not be reported to the server")
        return
    path = settings.home / "unsent" / f"{options.run}.jsonl"
    number = queue.save(path)
    unsent = counted(queue.read - sender.stored - sender.refused, "line")
    resume = join(["ash", "ingest", "--session", options.name, *_resume_options(sender, options)])
    warn(
        f"{stored}, {unsent} saved to a file. To send them: {visible(resume)} --resume {options.run}/{number} "
        f"< {quote(str(path))} > {os.devnull} (delete the file once they are stored)"
    )


def _resume_options(sender: Sender, options: IngestOptions) -> list[str]:
    """Return the options that the resuming command needs."""
    return [
        *url_arguments(sender.server),
        *(["--source", sender.source] if sender.source else []),
        *([] if sender.has_sent_prompt or options.prompt is None else ["--prompt", options.prompt]),
        *([] if options.ends else ["--no-end"]),
    ]
