"""The health of a server, and the version of its API."""

from typing import Literal

from pydantic import BaseModel, ConfigDict

API_VERSION = 1
"""Increased by changes after which clients of the previous version no longer work."""


class Health(BaseModel):
    """The result of a successful health check; a failed one is a problem response."""

    model_config = ConfigDict(use_attribute_docstrings=True)

    status: Literal["ok"]
    version: str = ""
    """The version of Ash."""
    api: int = 0
    """The version of the API: clients work with servers of the same version."""
