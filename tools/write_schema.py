"""Write the tables of schema.sql from tables.py, and the view `events_full` from stored_json.sql.

Run it as `make schema` after a change of these files. It replaces the statements between the marks; roles, other views
and rows are edited in the file itself.
"""

from collections.abc import Iterator

from sqlalchemy import Table
from sqlalchemy.dialects.postgresql import dialect
from sqlalchemy.schema import CreateIndex, CreateTable, ExecutableDDLElement, SetColumnComment

from ash_server.store.connections.tenants import APP_ROLE
from ash_server.store.log.stored_json import create_view
from ash_server.store.maintenance.distribution import DISTRIBUTED
from ash_server.store.schema.migrations import REVISION, SCHEMA_FILE
from ash_server.store.schema.tables import metadata

BEGIN = "-- Tables, written by `make schema` from tables.py.\n"
END = "-- End of the tables.\n"
BEGIN_VIEW = "-- The view of events, written by `make schema` from log/stored_json.sql.\n"
END_VIEW = "-- End of the view.\n"

_POSTGRESQL = dialect()


def written_schema() -> str:
    """Return the file with the current tables and the current view."""
    tables = "".join(f"\n{section}" for section in map(_section, metadata.tables.values()))
    version = f"\nINSERT INTO alembic_version VALUES ('{REVISION}');\n"
    with_tables = _replace(SCHEMA_FILE.read_text(), BEGIN, f"{version}{tables}\n", END)
    return _replace(with_tables, BEGIN_VIEW, f"\n{create_view()};\n\n", END_VIEW)


def _replace(text: str, begin: str, new: str, end: str) -> str:
    """Replace the text between two marks."""
    return text[: text.index(begin)] + begin + new + text[text.index(end) :]


def _section(table: Table) -> str:
    return f"-- {table.name}\n\n" + "".join(f"{statement};\n" for statement in _statements(table))


def _statements(table: Table) -> Iterator[str]:
    yield _compile(CreateTable(table))
    for index in sorted(table.indexes, key=lambda each: str(each.name)):
        yield _compile(CreateIndex(index))
    for column in table.columns:
        if column.comment:
            yield _compile(SetColumnComment(column))
    if table.name in DISTRIBUTED:
        yield f"ALTER TABLE {table.name} ENABLE ROW LEVEL SECURITY"
        yield (
            f"CREATE POLICY tenant ON {table.name} TO {APP_ROLE}\n"
            "    USING (tenant = (SELECT current_setting('ash.tenant')::integer))"
        )
        yield f"GRANT SELECT, INSERT, UPDATE, DELETE ON {table.name} TO {APP_ROLE}"


def _compile(element: ExecutableDDLElement) -> str:
    sql = str(element.compile(dialect=_POSTGRESQL)).strip().replace("\t", "    ").replace("%%", "%")
    return "\n".join(line.rstrip() for line in sql.replace(") WHERE ", ")\n    WHERE ").splitlines())


if __name__ == "__main__":
    SCHEMA_FILE.write_text(written_schema())
