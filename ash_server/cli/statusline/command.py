"""`ash statusline`: the help; the line itself is made in `line`, without imports."""

import rich_click as click

from ash_server.cli.statusline.line import main


@click.command("statusline")
def command() -> None:
    """Print the costs of a session, for the status line of Claude Code.

    The line has the cost of the session, of today, and of the five-hour block. Claude Code sends facts of its session
    on stdin. Costs come from the server at ASH_URL, or on this machine, if it answers within 25 ms; otherwise the line
    has the cost that Claude Code sent.

    \b
    In ~/.claude/settings.json:
    { "statusLine": { "type": "command", "command": "ash statusline" } }
    """
    main()
