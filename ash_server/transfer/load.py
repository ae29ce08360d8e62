"""Transcript files as standard messages, without a database."""

from pathlib import Path

from ash_server.transfer.importing.transcript import open_transcript
from ash_shared.conversation.standard_messages import transform_messages
from ash_shared.model.message import StandardMessage


def load_session(path: str | Path) -> list[StandardMessage]:
    """Return the messages of a transcript of any supported CLI: `.jsonl`, `.json`, `.jsonl.zst`, an OpenCode session.

    For OpenCode, `path` is the session file, `storage/session/<project>/<session>.json`. Raises OSError if a file
    cannot be read; its contents never raise. Lines longer than 64 MiB are skipped.

    The result contains the whole transcript twice, decoded (`_original`) and typed, and takes several times the size of
    the file in memory. Import larger transcripts and read them from the store in pages.
    """
    transcript = open_transcript(Path(path))
    texts = (line.data for line in transcript.lines() if line.data is not None)
    return transform_messages(texts, transcript.source)
