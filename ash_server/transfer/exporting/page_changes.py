"""What a page without a server contains besides its events: the changed files and the last plan for its panel."""

from collections.abc import Sequence
from typing import Any

import msgspec

from ash_server.store.conversation.session_changes import MAX_CHARACTERS
from ash_server.store.log.events import StoredEvent
from ash_server.transfer.exporting.formulas import contains_formula, has_formula
from ash_shared.model.session import Session
from ash_shared.projections.changes import EVENT_TYPES, EditLog, may_change, to_session_changes
from ash_shared.projections.plan import PlanLog, is_plan_tool

_TYPES = frozenset(EVENT_TYPES)


class _CallPayload(msgspec.Struct):
    toolCallId: Any = None  # noqa: N815 - the names in the JSON
    toolName: Any = None  # noqa: N815
    args: Any = None


class _CallEvent(msgspec.Struct):
    payload: _CallPayload


_decode_call = msgspec.json.Decoder(_CallEvent).decode


class PageChanges:
    """Collects the changes and the last plan from the events of a page."""

    has_formulas: bool
    """True if the page needs the library for formulas."""

    def __init__(self, session: Session) -> None:
        self.has_formulas = contains_formula(session.model_dump_json().encode())
        self._session = session
        self._edits = EditLog(session.copied_messages or 0)
        self._plan = PlanLog()
        self._is_too_large = False

    def add(self, events: Sequence[StoredEvent]) -> None:
        self.has_formulas = self.has_formulas or any(map(has_formula, events))
        for stored in events:
            if stored.type in _TYPES and self._is_needed(stored):
                event = msgspec.json.decode(stored.wire_bytes())
                self._plan.add(event)
                if not self._is_too_large:
                    self._edits.add(event)
        if self._edits.size > MAX_CHARACTERS:
            self._is_too_large, self._edits = True, EditLog()

    def _is_needed(self, stored: StoredEvent) -> bool:
        """False for a call, or the result of one, that changes neither files nor the plan."""
        if stored.type not in ("tool_call", "tool_result"):
            return True
        call = _decode_call(stored.content).payload
        if stored.type == "tool_result":
            return self._edits.expects(call.toolCallId) or self._plan.expects(call.toolCallId)
        return may_change(call.toolName, call.args) or is_plan_tool(str(call.toolName))

    def json(self) -> str:
        """Return `plan` and `report` as JSON; each is omitted if the page has none."""
        parts = dict[str, Any]()
        plan = self._plan.plan()
        if plan is not None:
            parts["plan"] = plan.model_dump(mode="json")
        if not self._is_too_large and self._edits.calls:
            report = to_session_changes(str(self._session.id), self._edits.calls)
            parts["report"] = report.model_dump(mode="json")
        return msgspec.json.encode(parts).decode()
