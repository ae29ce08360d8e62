"""`ash retention`: delete sessions some time after their last change."""

from functools import partial

import rich_click as click

from ash_server.cli.common.change_store import StoreToChange, changes_store
from ash_server.cli.common.output.terminal import counted, stdout_console
from ash_server.cli.common.read_store import ReadStore, StoreToRead, reads_store
from ash_server.cli.sessions import session_table
from ash_server.errors import InvalidRetention
from ash_server.retention.ages import parse_age
from ash_server.retention.policy import MAX_SHARE, NewRetention
from ash_shared.model.reports.retention import RETENTION_KEEPS, RetentionPolicy, RetentionRun
from ash_shared.model.session import Session

_OFF = "sessions are kept; delete old ones with `ash retention set 2y`"


def read_age(_: click.Context, __: click.Parameter, value: str) -> str:
    try:
        parse_age(value)
    except InvalidRetention as error:
        raise click.BadParameter(error.detail or error.title) from None
    return value


@click.group("retention")
def command() -> None:
    """Delete sessions some time after their last change.

    A server runs the policy every hour; without a server, run `ash retention run` regularly. A session is deleted 30
    days after it was scheduled. Starred, noted and shared sessions are kept, with their parents and subagents.
    """


@command.command("set")
@click.argument("age", metavar="AGE", callback=read_age)
@click.option(
    "--keep",
    type=click.Choice(RETENTION_KEEPS),
    multiple=True,
    help="Keep tagged sessions, too; may be repeated. Starred ones are always kept.",
)
@changes_store
def set_(age: str, *, store: StoreToChange, keep: tuple[str, ...]) -> None:
    """Set how long sessions are kept: 90d, 8w, 18mo (of 30 days) or 2y (of 365 days).

    \b
    ash retention set 2y
    ash retention set 18mo --keep tagged
    """
    new = NewRetention(age, list(keep))  # type: ignore[arg-type]  # checked by the option
    planned = store.change(partial(_set, change=store, new=new))
    click.echo(_describe_age(age))
    click.echo(_describe_first(planned))


async def _set(store: ReadStore, change: StoreToChange, new: NewRetention) -> RetentionRun:
    await change.confirm(store, f"Set the retention of all sessions to {new.age}")
    await store.set_retention(new)
    return await store.run_retention(is_dry_run=True)


@command.command()
@reads_store
def show(*, store: StoreToRead) -> None:
    """Show the policy, the result of its last run, and the sessions scheduled for deletion."""
    retention, sessions = store.read(_read)
    click.echo(describe_retention(retention))
    if sessions:
        stdout_console().print(session_table(sessions))
    if (missing := retention.scheduled - len(sessions)) > 0:
        click.echo(f"and {counted(missing, 'other session')}")


async def _read(store: ReadStore) -> tuple[RetentionPolicy, list[Session]]:
    retention = await store.get_retention()
    return retention, await store.get_sessions(retention.sessions)


@command.command()
@click.option("--dry-run", is_flag=True, help="Only list what would be scheduled and deleted.")
@changes_store
def run(*, store: StoreToChange, dry_run: bool) -> None:
    """Run the policy now, and confirm it if a server waits for that.

    Schedules the sessions without a change for the age of the policy, and deletes those scheduled 30 days ago.

    \b
    ash retention run --dry-run
    ash retention run
    """
    if dry_run:
        store.change(_preview)
    else:
        click.echo(_describe_run(store.change(partial(_run, change=store))))


async def _preview(store: ReadStore) -> None:
    planned = await store.run_retention(is_dry_run=True)
    if sessions := await store.get_sessions(planned.sessions):
        stdout_console().print(session_table(sessions))
    if (missing := planned.scheduled + planned.deleted - len(sessions)) > 0:
        click.echo(f"and {counted(missing, 'other session')}")
    click.echo(_describe_run(planned))


async def _run(store: ReadStore, change: StoreToChange) -> RetentionRun:
    planned = await store.run_retention(is_dry_run=True)
    sessions = f"{counted(planned.scheduled, 'session')} for deletion and delete {planned.deleted}"
    await change.confirm(store, f"Schedule {sessions}")
    return await store.run_retention(is_dry_run=False)


@command.command()
@changes_store
def off(*, store: StoreToChange) -> None:
    """Keep all sessions, also those scheduled for deletion."""
    store.change(partial(_end, change=store))
    click.echo("sessions are kept")


async def _end(store: ReadStore, change: StoreToChange) -> None:
    await change.confirm(store, "End the retention of sessions")
    await store.end_retention()


def describe_retention(retention: RetentionPolicy) -> str:
    if retention.age is None:
        return _OFF
    lines = [_describe_age(retention.age, ", ".join(retention.keep))]
    scheduled = f"{counted(retention.scheduled, 'session')} scheduled for deletion"
    due = f", the first on {retention.next_due_at:%Y-%m-%d}" if retention.next_due_at else ""
    lines.append(scheduled + due)
    if retention.checked_at:
        waiting = f"; {counted(retention.waiting, 'old session')} not scheduled" if retention.waiting else ""
        lines.append(f"last run {retention.checked_at.astimezone():%Y-%m-%d %H:%M}{waiting}")
    else:
        lines.append("not run yet; the first run of a server only counts")
    if retention.held:
        lines.append(f"waiting for `ash retention run`: {_HELD[retention.held]}")
    return "\n".join(lines)


_HELD = {
    "share": f"more than {MAX_SHARE:.0%} of the sessions would be scheduled at once",
    "clock": "the clock of the database jumped by more than a day",
}


def _describe_age(age: str, keep: str = "") -> str:
    also = f" (--keep {keep})" if keep else ""
    return f"sessions without a change for {age} are deleted 30 days after they are scheduled{also}"


def _describe_first(planned: RetentionRun) -> str:
    if not planned.scheduled:
        return "no session is as old now"
    number = f"{planned.scheduled} of {counted(planned.total, 'session')}"
    if planned.scheduled > MAX_SHARE * planned.total:
        return (
            f"{number} as old now: list them with `ash retention run --dry-run`, schedule them with "
            "`ash retention run`"
        )
    return f"{number} as old now: list them with `ash retention run --dry-run`"


def _describe_run(result: RetentionRun) -> str:
    would = "would be " if result.is_dry_run else ""
    parts = [
        f"{counted(result.scheduled, 'session')} {would}scheduled for deletion",
        f"{result.unscheduled} {would}kept after all" if result.unscheduled else "",
        f"{result.deleted} {would}deleted",
    ]
    return ", ".join(filter(None, parts))
