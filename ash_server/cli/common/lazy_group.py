"""A click group that imports a command only when it runs."""

from importlib import import_module
from typing import Any

import rich_click as click


class LazyCommand(click.RichCommand):
    """Placeholder for a command in help and completion; `load` imports the command."""

    def __init__(self, name: str, module: str, short_help: str) -> None:
        super().__init__(name=name, short_help=short_help)
        self._module = module

    def load(self) -> click.Command:
        command: click.Command = import_module(self._module).command
        return command


class LazyGroup(click.RichGroup):
    def resolve_command(self, ctx: click.Context, args: list[str]) -> Any:
        name, command, rest = super().resolve_command(ctx, args)
        return name, command.load() if isinstance(command, LazyCommand) else command, rest
