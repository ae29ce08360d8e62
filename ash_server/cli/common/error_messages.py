"""One line for each error that ends a command or the import of a file."""

from ash_server.errors import AshError, missing_package_message


def error_message(error: Exception) -> str:
    if isinstance(error, ModuleNotFoundError) and not str(error.name).startswith("ash_"):
        return missing_package_message(error)
    from psycopg import Error as DatabaseError
    from psycopg import OperationalError
    from psycopg.errors import DiskFull

    from ash_client.errors import ApiError
    from ash_server.store.embedded.binaries import EmbeddedPostgresError

    if isinstance(error, ApiError) and error.code == "key_required":
        return "the server needs a key: set ASH_KEY (`ash keys create` on the server creates one)"
    if isinstance(error, OSError) and error.filename:
        return f"{error.filename}: {error.strerror}"
    if isinstance(error, (AshError, ApiError, EmbeddedPostgresError, OSError, UnicodeError)):
        return str(error)
    reasons = {
        DiskFull: "the disk of the database is full",
        OperationalError: "the database does not answer",
        DatabaseError: "database error",
    }
    for kind, reason in reasons.items():
        if isinstance(error, kind):
            return f"{reason}: {error}"
    return f"{type(error).__name__}: {error} (a bug in Ash; set ASH_DEBUG=1 for the traceback)"
