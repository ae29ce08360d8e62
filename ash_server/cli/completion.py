"""`ash completion`: scripts that complete commands and options in a shell."""

import rich_click as click
from click.shell_completion import get_completion_class

SHELLS = ("bash", "zsh", "fish")
_VARIABLE = "_ASH_COMPLETE"


@click.command("completion")
@click.argument("shell", type=click.Choice(SHELLS))
@click.pass_context
def command(context: click.Context, shell: str) -> None:
    """Print a script that completes commands in bash, zsh or fish.

    \b
    eval "$(ash completion bash)"     in ~/.bashrc
    eval "$(ash completion zsh)"      in ~/.zshrc, after compinit
    ash completion fish > ~/.config/fish/completions/ash.fish
    """
    completion = get_completion_class(shell)
    assert completion is not None
    click.echo(completion(context.find_root().command, {}, "ash", _VARIABLE).source())
