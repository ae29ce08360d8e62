"""Compression of the texts of messages by PostgreSQL: a property of the column, which applies to new rows."""

from typing import Literal, TypeAlias

import psycopg

Compression: TypeAlias = Literal["lz4", "pglz", "none"]

_GET = """
    SELECT CASE
        WHEN attstorage = 'e' THEN 'none'
        WHEN attcompression = 'l' THEN 'lz4'
        WHEN attcompression = 'p' THEN 'pglz'
        ELSE current_setting('default_toast_compression') END
    FROM pg_attribute
    WHERE attrelid = 'messages'::regclass AND attname = 'content'
"""

_SET = {
    "lz4": "ALTER TABLE messages ALTER content SET STORAGE EXTENDED, ALTER content SET COMPRESSION lz4",
    "pglz": "ALTER TABLE messages ALTER content SET STORAGE EXTENDED, ALTER content SET COMPRESSION pglz",
    "none": "ALTER TABLE messages ALTER content SET STORAGE EXTERNAL",
}


def get_compression(conn: psycopg.Connection) -> Compression:
    ((compression,),) = conn.execute(_GET).fetchall()
    current: Compression = compression
    return current


def set_compression(conn: psycopg.Connection, compression: Compression) -> None:
    """Raises psycopg.errors.FeatureNotSupported if PostgreSQL was built without lz4."""
    conn.execute(_SET[compression])
