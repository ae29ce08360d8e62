"""The options of `ash import`, without the modules that an import needs."""

import os
from dataclasses import dataclass

MAX_JOBS = 32
"""Each process uses up to two of the 100 connections of the embedded PostgreSQL."""


@dataclass(frozen=True)
class ImportOptions:
    source: str | None = None
    name: str | None = None
    """External id of the session, for a single file."""
    replace: bool = False
    jobs: int = 1
    """Maximum number of files imported at once: one in this process, each other one in a process of its own."""


def default_jobs() -> int:
    """Return the number of cores that this process may use."""
    affinity = getattr(os, "sched_getaffinity", None)  # not on macOS
    cores = len(affinity(0)) if affinity else os.cpu_count() or 1
    return min(cores, MAX_JOBS)
