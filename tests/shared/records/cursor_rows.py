"""Rows of Cursor's databases."""

import json
from typing import Any

Record = dict[str, Any]

CONVERSATION = "c1"


def editor_row(key: str, value: Record) -> Record:
    return {"table": "cursorDiskKV", "key": key, "columns": {"key": key, "value": json.dumps(value)}}


def message(id: str, **values: Any) -> Record:
    """Return the row of a message of the editor."""
    return editor_row(f"bubbleId:{CONVERSATION}:{id}", {"_v": 3, "bubbleId": id, **values})


def conversation(*ids: str, **values: Any) -> Record:
    """Return the row of a conversation with these messages."""
    head: Record = {
        "_v": 10,
        "composerId": CONVERSATION,
        "name": "Count the oars",
        "createdAt": 1772442000000,
        "lastUpdatedAt": 1772442009000,
        "modelConfig": {"modelName": "m1", "maxMode": False},
        "workspaceIdentifier": {"id": "9", "uri": {"fsPath": "/work/shop", "scheme": "file"}},
        "fullConversationHeadersOnly": [{"bubbleId": id, "type": 2} for id in ids],
    }
    return editor_row(f"composerData:{CONVERSATION}", {**head, **values})


def call(name: str, status: str, **values: Any) -> Record:
    arguments = json.dumps({"path": "oars.txt"})
    return {"tool": 40, "toolCallId": "t1", "name": name, "status": status, "rawArgs": arguments, **values}


def chat(**values: Any) -> Record:
    """Return the row that describes a chat of the command line."""
    described = {
        "agentId": "a1",
        "latestRootBlobId": "ff" * 32,
        "name": "Count the oars",
        "createdAt": 1772442000000,
        "lastUsedModel": "m1",
        **values,
    }
    value = json.dumps(described).encode().hex()
    return {"table": "meta", "key": "0", "columns": {"key": "0", "value": value}}


def chat_message(id: str, role: str, content: Any) -> Record:
    data = json.dumps({"id": id, "role": role, "content": content})
    return {"table": "blobs", "key": id, "columns": {"id": id, "data": data}}
