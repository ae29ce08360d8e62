"""Names that identify a transcript and its copies at any path."""

from ash_server.store.facts.replacements import digest_of_names
from ash_server.store.transcripts import TranscriptNames
from ash_shared.model.message import Identity


class NameCollector:
    """Collects the names in the first records of a transcript."""

    def __init__(self) -> None:
        self._session: str | None = None
        self._project: str | None = None
        self._agent: str | None = None
        self._record: str | None = None
        self._sessions: dict[str, None] = {}
        self.are_complete = False
        """True after the first record that is not a header: forks begin with the headers of their origins."""

    def add(self, identity: Identity) -> None:
        if self._session is None:
            self._project = self._project or identity.project
            self._agent = self._agent or identity.agent
        self._session = self._session or identity.session
        self._sessions |= dict.fromkeys(filter(None, (identity.session, identity.origin)))
        self._record = self._record or identity.record
        self.are_complete = self.are_complete or bool(identity.record) or identity.body != ""

    def names(self, source: str) -> TranscriptNames | None:
        """Return the names, as digests of fixed length; None if the provider does not name the session."""
        if self._session is None:
            return None
        key = digest_of_names("transcript", source, self._session, self._project, self._agent)
        sessions = (
            [] if self._agent else [digest_of_names("session", source, name) for name in self._sessions]
        )
        records = [digest_of_names("record", source, self._record)] if self._record else []
        return TranscriptNames(self._session, key, (key, *sessions, *records))
