"""Commands of earlier versions, which say where their work is done now."""

import rich_click as click


class CommandMoved(click.ClickException):
    exit_code = 2


def moved_command(old: str, new: str) -> click.Command:
    """Return a hidden command that accepts all arguments, and fails with the command line to run instead."""

    @click.command(
        old.split()[-1],
        hidden=True,
        add_help_option=False,
        context_settings={"ignore_unknown_options": True, "allow_extra_args": True},
    )
    def command() -> None:
        raise CommandMoved(f"`{old}` is now part of `{new}`")

    return command
