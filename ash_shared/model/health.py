"""The health of a server, and the version of its API."""

from typing import Literal

from pydantic import Field

from ash_shared.model.base import ABSENT, AshModel, Omittable

API_VERSION = 1
"""Increased by changes after which clients of the previous version no longer work."""


class ReplicaHealth(AshModel):
    """Use and lag of the replica of a server."""

    is_used: bool = Field(alias="isUsed")
    """False while the replica cannot be read: the primary then answers."""
    lag_seconds: Omittable[float] = Field(default=ABSENT, alias="lagSeconds")
    """The age of the oldest change that the replica does not have; absent if it is unknown."""
    reason: Omittable[
        Literal["unavailable", "schema", "lag", "primary", "promoted", "system", "timeline"]
    ] = ABSENT
    """Why the replica is not used: it does not answer (`unavailable`), has another `schema`, or lags too much (`lag`);
    the state of the `primary` is unknown; it is no replica, or was `promoted`; it is a replica of another server
    (`system`), or follows another primary since a promotion (`timeline`)."""


class ClusterHealth(AshModel):
    """The nodes of a Citus cluster."""

    workers: int
    unavailable: int
    """The number of workers that do not answer: their sessions can be neither read nor written."""


class Health(AshModel):
    """The result of a successful health check; a failed one is a problem response."""

    status: Literal["ok", "degraded"]
    """`degraded`: a part of a cluster does not answer, so that requests on some sessions fail."""
    version: str = ""
    """The version of Ash."""
    api: int = 0
    """The version of the API: clients work with servers of the same version."""
    replica: Omittable[ReplicaHealth] = ABSENT
    """Only when the server is asked whether it is ready, and if it has a replica."""
    cluster: Omittable[ClusterHealth] = ABSENT
    """Only when the server is asked whether it is ready, and if the database is distributed."""
