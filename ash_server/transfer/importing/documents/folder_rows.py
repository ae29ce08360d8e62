"""The documents of a session in a folder, each as one line.

The first version of a document is a message named after the file, and each later version another one, with a digest in
its name.
"""

from collections.abc import Iterator

from ash_server.file_access import ANY_FILE, FileAccess
from ash_server.transfer.importing.databases.opencode_rows import RowLine
from ash_server.transfer.importing.databases.row_lines import digest, named_line
from ash_server.transfer.importing.documents.folders import SessionFolder
from ash_server.transfer.importing.lines import MAX_LINE_BYTES


def read_documents(folder: SessionFolder, access: FileAccess = ANY_FILE) -> Iterator[RowLine]:
    """Yield the documents with the names of their versions. Raises OSError."""
    for file in folder.files():
        with access.open(file) as opened:
            text = opened.read(MAX_LINE_BYTES + 1)
        name = file.relative_to(folder.main.parent).as_posix()
        yield RowLine(named_line(name, text), named_line(f"{name}@{digest(text)}", text))
