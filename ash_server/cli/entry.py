"""The script `ash`: the command group, except for the status line, which must not wait for its imports."""

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn


def main() -> "NoReturn":
    if sys.argv[1:] == ["statusline"]:
        from ash_server.cli.statusline.line import main as print_status_line

        print_status_line()
    from ash_server.cli.main import main as run_command

    run_command()
