"""Distribution of the tables of sessions over the nodes of a Citus cluster, by session.

The rows of a session stay together, so every statement on one session runs on one node. The other tables stay on the
coordinator, the server that Ash connects to.
"""

import psycopg
from psycopg import sql
from psycopg.errors import InsufficientPrivilege

from ash_server.errors import AshError
from ash_server.store.connections.cluster import DISTRIBUTED
from ash_server.store.connections.tenants import role_of, role_statements
from ash_server.store.statements import Sql, statements

DEFAULT_SHARDS = 32

SQL = statements(__file__)


class NoCitus(AshError):
    status, code, title = 500, "no_citus", "The database has no extension citus."


class SuperuserNeeded(AshError):
    status, code, title = 500, "superuser_needed", "Only a superuser may run the statement."


def plan_distribution(conn: psycopg.Connection, shards: int) -> list[str]:
    """Return the statements that distribute the remaining tables, each a transaction of its own."""
    done: set[str] = set()
    if _has_citus(conn):
        done = {name for (name,) in conn.execute(SQL.list_distributed_tables).fetchall()}
    missing = {table: column for table, column in DISTRIBUTED.items() if table not in done}
    return [
        *_role_statements(conn),
        *(SQL.simplify_policy.fill(table=Sql(table)) for table in missing),
        *(
            SQL.distribute.fill(table=table, column=column, place=_place(table, shards))
            for table, column in missing.items()
        ),
        *(SQL.truncate_local_data.fill(table=table) for table in _with_own_rows(conn)),
    ]


def distribute_by(conn: psycopg.Connection, statement: str) -> None:
    """Run one statement of the plan. Raises SuperuserNeeded."""
    try:
        conn.execute(statement)
    except InsufficientPrivilege as error:
        user = sql.Identifier(conn.info.user).as_string(conn)
        missing = [each.replace("CURRENT_USER", user) for each in _role_statements(conn) or [statement]]
        raise SuperuserNeeded(
            f"{error.diag.message_primary}: let a superuser run `{'; '.join(missing)};`, and repeat the command"
        ) from error


def check_citus(conn: psycopg.Connection) -> None:
    """Raises NoCitus."""
    if not _has_citus(conn):
        raise NoCitus(
            "the database has no extension citus: install it on all nodes, and run `CREATE EXTENSION citus`"
        )


def _has_citus(conn: psycopg.Connection) -> bool:
    ((has_function,),) = conn.execute(SQL.has_citus).fetchall()
    return bool(has_function)


def _role_statements(conn: psycopg.Connection) -> list[str]:
    roles = {name for (name,) in conn.execute(SQL.list_roles).fetchall()}
    numbers = [
        number for (number,) in conn.execute(SQL.list_tenants).fetchall() if role_of(number) not in roles
    ]
    return [statement for number in numbers for statement in role_statements(number)]


def _with_own_rows(conn: psycopg.Connection) -> list[str]:
    """Return the tables that have or had rows on the coordinator, those that refer to others first."""
    sizes = {table: conn.execute(SQL.has_own_rows, [table]).fetchall() for table in reversed(DISTRIBUTED)}
    return [table for table, ((has_rows,),) in sizes.items() if has_rows]


def _place(table: str, shards: int) -> Sql:
    return Sql(f"shard_count := {shards}" if table == "sessions" else "colocate_with := 'sessions'")
