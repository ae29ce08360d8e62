"""Alembic's commands, called without a process that imports Ash again."""

import os
from io import StringIO
from pathlib import Path
from typing import Any
from unittest.mock import patch

from alembic import command
from alembic.config import Config

_FOLDER = Path(__file__).parents[1] / "alembic"


def alembic(url: str, name: str, *arguments: str, **options: Any) -> str:
    """Run a command on a database and return its output."""
    output = StringIO()
    config = Config(stdout=output, output_buffer=output)
    config.set_main_option("script_location", str(_FOLDER))
    with patch.dict(os.environ, ASH_DATABASE_URL=url):
        getattr(command, name)(config, *arguments, **options)
    return output.getvalue()
