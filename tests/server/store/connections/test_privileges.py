"""A database owner that is not a superuser, as on a managed PostgreSQL."""

import re
import tempfile
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import psycopg
import pytest

from ash_server.errors import SchemaMismatch
from ash_server.store import Store
from ash_server.store.connections.tenants import APP_ROLE, role_of
from ash_server.store.embedded.server import EmbeddedPostgres
from ash_server.store.schema.migrations import REVISION, upgrade
from tests.conftest import at_database, memory_folder
from tests.server.cli.test_cli import Ran, environment, ran_here
from tests.server.store.maintenance.test_distribution import STAND_INS
from tests.server.store.test_upgrade import load_store

OWNER = "Ash-owner"
CREATED = f"CREATE ROLE {APP_ROLE} NOLOGIN; "
GRANTED = f'GRANT {APP_ROLE} TO "{OWNER}" WITH SET TRUE;'
LINE = '{"type":"user","uuid":"u1","message":{"role":"user","content":"hello"}}'
OLD_STORES = [
    Path(__file__).parents[1] / "upgrade" / f"store_{revision}.sql" for revision in ("0012", "0016")
]


@pytest.fixture(scope="module")
def admin() -> Iterator[psycopg.Connection]:
    """A superuser on a separate server, because roles belong to the server."""
    with (
        tempfile.TemporaryDirectory(prefix="ash-tests-", dir=memory_folder()) as folder,
        EmbeddedPostgres(Path(folder, "pg"), durable=False) as server,
        closing(psycopg.connect(server.url(), autocommit=True)) as conn,
    ):
        yield conn


@pytest.fixture
def owned(admin: psycopg.Connection) -> Iterator[str]:
    """The URL of an empty database for its owner, who has no other privileges."""
    admin.execute(f'CREATE ROLE "{OWNER}" LOGIN')
    admin.execute(f'CREATE DATABASE owned OWNER "{OWNER}"')
    yield f"postgresql://{OWNER}@/owned?host={admin.info.host}&port={admin.info.port}"
    admin.execute("DROP DATABASE IF EXISTS owned WITH (FORCE)")
    admin.execute("DROP DATABASE IF EXISTS copy WITH (FORCE)")
    for role in (role_of(2), role_of(1), APP_ROLE, OWNER):
        admin.execute(f'DROP ROLE IF EXISTS "{role}"')


def run(url: str, folder: Path, *arguments: str) -> Ran:
    return ran_here(arguments, environment(folder, url, {}), folder)


@pytest.mark.parametrize(
    ("granted", "missing"),
    {
        "": CREATED + GRANTED,
        CREATED: GRANTED,
        f'{CREATED} GRANT {APP_ROLE} TO "{OWNER}" WITH SET FALSE': GRANTED,
    }.items(),
    ids=["no role", "no member", "no option"],
)
def test_upgrade_names_the_statements_of_an_administrator(
    granted: str, missing: str, admin: psycopg.Connection, owned: str, tmp_path: Path
) -> None:
    admin.execute(granted.encode())

    refused = run(owned, tmp_path, "db", "upgrade")
    assert refused == Ran(
        1,
        "",
        f'ash: the database cannot be migrated: user "{OWNER}" may not use the role {APP_ROLE}; '
        f"let an administrator run `{missing}`\n",
    )
    admin.execute(missing.encode())
    assert run(owned, tmp_path, "db", "upgrade").out == f"the database has schema {REVISION}\n"


def test_upgrade_of_a_database_of_another_owner(
    admin: psycopg.Connection, owned: str, tmp_path: Path
) -> None:
    admin.execute("ALTER DATABASE owned OWNER TO postgres")

    assert run(owned, tmp_path, "db", "upgrade").err == (
        "ash: the database cannot be migrated: permission denied for schema public; the user must own the database "
        "and its tables\n"
    )


@pytest.mark.slow
async def test_owner_can_do_everything(admin: psycopg.Connection, owned: str, tmp_path: Path) -> None:
    admin.execute(f'{CREATED} GRANT {APP_ROLE} TO "{OWNER}"'.encode())
    admin.execute(f'CREATE DATABASE copy OWNER "{OWNER}"')
    file = tmp_path / "line.jsonl"
    file.write_text(LINE)

    commands = (
        ("db", "upgrade"),
        ("import", str(file)),
        ("keys", "create", "laptop", "--tenant", "red"),
        ("search", "hello"),
        ("reindex", "--all"),
        ("db", "compression", "pglz"),
        ("db", "vacuum"),
        ("keys", "audit"),
        ("backup", "ash.backup"),
        ("delete", str(file), "--yes"),
    )
    assert {command: ran for command in commands if (ran := run(owned, tmp_path, *command)).code} == {}
    assert run(at_database(owned, "copy"), tmp_path, "restore", "ash.backup").out == "1 session restored\n"
    async with Store.open(owned) as store:
        red = store.for_tenant(await store.get_tenant("red"))
        session = await red.sessions.create(external_id="run-7")
        [appended] = await red.messages.append(session.id, [LINE])
        assert appended.created


@pytest.mark.parametrize("path", OLD_STORES, ids=lambda path: path.stem)
async def test_owner_upgrades_a_store_of_an_earlier_version(
    path: Path, admin: psycopg.Connection, owned: str
) -> None:
    admin.execute(f'{CREATED} GRANT {APP_ROLE} TO "{OWNER}"'.encode())
    load_store(owned, path)
    upgrade(owned)

    async with Store.open(owned) as store:
        assert [session async for session in store.sessions.list_all()]


@pytest.mark.parametrize(
    ("change", "reason", "missing"),
    [
        (f'REVOKE {APP_ROLE} FROM "{OWNER}"', f'permission denied to set role "{APP_ROLE}"', GRANTED),
        (
            f"ALTER ROLE {APP_ROLE} RENAME TO {APP_ROLE}_1",
            f'role "{APP_ROLE}" does not exist',
            CREATED + GRANTED,
        ),
    ],
    ids=["no member", "no role"],
)
async def test_store_names_the_statements_of_an_administrator(
    change: str, reason: str, missing: str, admin: psycopg.Connection, owned: str
) -> None:
    """This happens after a dump is restored on another server."""
    admin.execute(f'{CREATED} GRANT {APP_ROLE} TO "{OWNER}"'.encode())
    upgrade(owned)
    admin.execute(change.encode())

    async with Store.open(owned) as store:
        with pytest.raises(
            SchemaMismatch, match=re.escape(f"{reason}: let an administrator run `{missing}`")
        ):
            await store.sessions.list_sessions()


def role_statements(number: int) -> str:
    role = role_of(number)
    return (
        f"CREATE ROLE {role} LOGIN IN ROLE {APP_ROLE}; ALTER ROLE {role} SET ash.tenant = '{number}'; "
        f'GRANT {role} TO "{OWNER}"'
    )


def test_distribution_names_the_statements_of_a_superuser(
    admin: psycopg.Connection, owned: str, tmp_path: Path
) -> None:
    admin.execute(f'{CREATED} GRANT {APP_ROLE} TO "{OWNER}"'.encode())
    upgrade(owned)
    with closing(psycopg.connect(owned, autocommit=True)) as conn:
        conn.execute(STAND_INS)

    refused = run(owned, tmp_path, "db", "distribute")
    assert refused.code == 1
    assert refused.err == (
        f"ash: permission denied to create role: let a superuser run `{role_statements(1)};`, and repeat the command\n"
    )
    admin.execute(f"{role_statements(1)};".encode())
    assert run(owned, tmp_path, "db", "distribute").code == 0


def test_new_tenant_of_a_cluster_names_the_statements_of_a_superuser(
    admin: psycopg.Connection, owned: str, tmp_path: Path
) -> None:
    """In a Citus cluster, each tenant has a role, which only superusers can create."""
    admin.execute(f'{CREATED} GRANT {APP_ROLE} TO "{OWNER}"; CREATE ROLE {role_of(1)}'.encode())
    upgrade(owned)
    with closing(psycopg.connect(owned, autocommit=True)) as conn:
        conn.execute(STAND_INS)
    create = ("keys", "create", "laptop", "--tenant", "red")

    refused = run(owned, tmp_path, *create)
    statements = re.findall("`(.*)`", refused.err)[0]
    admin.execute(statements.encode())

    assert refused.code == 1
    assert statements == f"{role_statements(2)} WITH SET TRUE;"
    assert run(owned, tmp_path, *create).code == 0
