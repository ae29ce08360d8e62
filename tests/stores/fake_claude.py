#!/usr/bin/env python3
"""The CLI of Claude Code as claude-agent-sdk runs it, with a model that runs `make test` and says `Done.`

It mirrors its transcript.
"""

import json
import os
import re
import sys
from pathlib import Path
from typing import Any
from uuid import uuid4

SESSION = os.environ.get("FAKE_SESSION") or str(uuid4())


def write(**frame: object) -> None:
    sys.stdout.write(json.dumps(frame) + "\n")
    sys.stdout.flush()


def said_by_model(id: str, block: object) -> dict[str, Any]:
    return {"role": "assistant", "id": id, "model": "fake", "content": [block]}


def answer(prompt: object) -> None:
    call = {"type": "tool_use", "id": "t1", "name": "Bash", "input": {"command": "make test"}}
    output = {"type": "tool_result", "tool_use_id": "t1", "content": "2 failed"}
    said = said_by_model("m2", {"type": "text", "text": "Done."})
    messages: list[dict[str, Any]] = [
        {"role": "user", "content": prompt},
        said_by_model("m1", call),
        {"role": "user", "content": [output]},
        said,
    ]
    base = {"sessionId": SESSION, "cwd": os.getcwd(), "isSidechain": False}
    ids = [None, *(str(uuid4()) for _ in messages)]
    path = (
        Path(os.environ["CLAUDE_CONFIG_DIR"], "projects", re.sub("[^a-zA-Z0-9]", "-", os.path.realpath(".")))
        / f"{SESSION}.jsonl"
    )
    lines = [
        {"type": "mode", "mode": "normal", "sessionId": SESSION},
        *(
            {**base, "type": message["role"], "uuid": id, "parentUuid": parent, "message": message}
            for parent, id, message in zip(ids, ids[1:], messages, strict=False)
        ),
    ]
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a") as file:
        for line in lines:
            file.write(json.dumps(line) + "\n")
            write(type="transcript_mirror", filePath=str(path), entries=[line])
    write(type="assistant", message=said, session_id=SESSION, parent_tool_use_id=None)
    times = {"duration_ms": 1, "duration_api_ms": 1, "num_turns": 1}
    write(
        type="result",
        subtype="success",
        is_error=False,
        session_id=SESSION,
        result="Done.",
        uuid="r",
        **times,
    )


for line in sys.stdin:
    frame = json.loads(line)
    if frame["type"] == "control_request":
        response = {"subtype": "success", "request_id": frame["request_id"], "response": {}}
        write(type="control_response", response=response)
    elif frame["type"] == "user":
        answer(frame["message"]["content"])
