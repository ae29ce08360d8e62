"""The health of a server, and the version of its API."""

from typing import Literal

from pydantic import Field

from ash_shared.model.base import ABSENT, AshModel, Omittable

API_VERSION = 1
"""Increased by changes after which clients of the previous version no longer work."""


class ReplicaHealth(AshModel):
    """Use and lag of the replica of a server."""

    is_used: bool = Field(alias="isUsed")
    """False while the primary answers all reads, because the replica cannot be used."""
    lag_seconds: Omittable[float] = Field(default=ABSENT, alias="lagSeconds")
    """The age of the oldest change that the replica does not have; absent if it is unknown."""
    reason: Omittable[
        Literal["unavailable", "schema", "lag", "primary", "promoted", "system", "timeline"]
    ] = ABSENT
    """The reason why the replica is not used. `unavailable`: it does not answer. `schema`: it has another schema.
    `lag`: it lags too much. `primary`: the state of the primary is unknown. `promoted`: it accepts writes. `system`: it
    follows another database server. `timeline`: it does not follow the primary since a promotion."""


class ClusterHealth(AshModel):
    """The nodes of a Citus cluster."""

    workers: int
    unavailable: int
    """The number of workers that do not answer; their sessions cannot be read or written."""


class Health(AshModel):
    """The result of a successful health check; a failed one is a problem response."""

    status: Literal["ok", "degraded"]
    """`degraded`: part of a cluster does not answer, so requests for some sessions fail."""
    version: str = ""
    """The version of Ash."""
    api: int = 0
    """The version of the API: clients work with servers of the same version."""
    replica: Omittable[ReplicaHealth] = ABSENT
    """Only when the server is asked whether it is ready, and if it has a replica."""
    cluster: Omittable[ClusterHealth] = ABSENT
    """The state of a distributed database; only in the readiness check."""
