"""Tenants: teams that share a database and see only their own sessions.

Every row of a session has the number of its tenant. Row-level security compares it with the setting `ash.tenant` of the
connection (`connection.Pool`), so statements need no condition of their own.
"""

import re
from functools import lru_cache
from typing import NamedTuple
from uuid import UUID, uuid5

from psycopg import AsyncConnection, sql
from psycopg.errors import InsufficientPrivilege
from psycopg.rows import args_row

from ash_server.errors import InvalidParameter, SchemaMismatch
from ash_server.store.statements import Sql, statements

_NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,62}")

SQL = statements(__file__)


class Tenant(NamedTuple):
    number: int
    """Marks its rows."""
    id: UUID
    """The namespace of the ids of sessions that are computed from external ids. Must never change."""
    name: str


DEFAULT = Tenant(1, UUID("36db4084-d553-42c7-8f6e-dc8e38a6a21a"), "default")
"""The tenant of a server without keys, of local commands, and of all sessions of earlier versions."""


APP_ROLE = "ash_app"
"""The role of all statements on sessions. It is not the owner of the tables, so row-level security applies to it."""


_SET_OPTION = 160000
"""The first version of PostgreSQL with the membership option SET."""


def role_of(number: int) -> str:
    """Return the role of a tenant in a Citus cluster. The coordinator opens its connections to workers with it."""
    return f"{APP_ROLE}_{number}"


@lru_cache(maxsize=256)
def role_expression(number: int) -> str:
    """Return SQL for the role of the statements of a tenant: its own in a distributed database."""
    return SQL.role_of_tenant.fill(own=role_of(number), app=APP_ROLE)


def role_statements(number: int) -> list[str]:
    """Return the statements that create the role of a tenant. Its connections to workers have no other tenant."""
    role = Sql(role_of(number))
    return [
        SQL.create_role.fill(role=role, app=Sql(APP_ROLE)),
        SQL.restrict_role.fill(role=role, number=str(number)),
        SQL.grant_role.fill(role=role),
    ]


def membership_statement(conn: AsyncConnection, role: str) -> str:
    """Return the statement that lets the user of the connection set a role."""
    option = " WITH SET TRUE" if conn.info.server_version >= _SET_OPTION else ""
    return f"GRANT {role} TO {sql.Identifier(conn.info.user).as_string(conn)}{option}"


def tenant_of(conn: AsyncConnection) -> Tenant:
    """Return the tenant that borrowed the connection; the default one for connections of no pool."""
    return getattr(conn, "tenant", None) or DEFAULT


async def get_tenant(conn: AsyncConnection, name: str) -> Tenant | None:
    async with conn.cursor(row_factory=args_row(Tenant)) as cursor:
        return await (await cursor.execute(SQL.get_tenant, [name])).fetchone()


async def list_tenants(conn: AsyncConnection) -> list[Tenant]:
    async with conn.cursor(row_factory=args_row(Tenant)) as cursor:
        return await (await cursor.execute(SQL.list_tenants)).fetchall()


async def get_or_create_tenant(conn: AsyncConnection, name: str) -> Tenant:
    """Raises InvalidParameter, SchemaMismatch."""
    if not _NAME.fullmatch(name):
        raise InvalidParameter(
            "the name of a tenant has 1 to 63 characters: lower-case letters, digits, and `-` after the first"
        )
    async with conn.transaction():
        if tenant := await get_tenant(conn, name):
            return tenant
        await conn.execute(SQL.lock_tenants)
        await conn.execute(SQL.create_tenant, [uuid5(DEFAULT.id, f"tenant {name}"), name])
        tenant = await get_tenant(conn, name)
        assert tenant is not None
        roles = [role_of(DEFAULT.number), role_of(tenant.number)]
        ((lacks_role,),) = await (await conn.execute(SQL.lacks_role, roles)).fetchall()
        if lacks_role:
            await _create_role(conn, tenant)
    return tenant


async def _create_role(conn: AsyncConnection, tenant: Tenant) -> None:
    """Raises SchemaMismatch."""
    *created, granted = role_statements(tenant.number)
    try:
        for statement in (*created, granted):
            await conn.execute(statement)
    except InsufficientPrivilege as error:
        statements = "; ".join((*created, membership_statement(conn, role_of(tenant.number))))
        raise SchemaMismatch(
            f"the user of the database may not create the role of the tenant {tenant.name}: let a superuser run "
            f"`{statements};`, and repeat the command"
        ) from error
