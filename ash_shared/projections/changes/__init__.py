"""The changes of files in a session: a report by file and by turn, from the events of its log."""

from ash_shared.projections.changes.edits import EVENT_TYPES, CallEdits, EditLog, may_change
from ash_shared.projections.changes.patch import to_patch
from ash_shared.projections.changes.report import to_session_changes

__all__ = ["EVENT_TYPES", "CallEdits", "EditLog", "may_change", "to_patch", "to_session_changes"]
