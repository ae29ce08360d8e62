"""The running turn as a run of AG-UI, over HTTP."""

import json

import httpx2
import pytest

from tests.server.api.test_ui_stream import base, event, post

__all__ = ["base"]


def test_a_client_follows_the_running_turn_from_its_start(base: str) -> None:
    assert httpx2.get(f"{base}/ag-ui").status_code == 204
    post(base, event("turn_start", trigger="user"), event("assistant_chunk", text="I lo"))

    with httpx2.stream("GET", f"{base}/ag-ui") as response:
        assert response.headers["content-type"].startswith("text/event-stream")
        lines = filter(lambda line: line.startswith("data: "), response.iter_lines())
        first = [json.loads(next(lines).removeprefix("data: ")) for _ in range(3)]
        post(base, event("assistant_done", text="I look."), event("turn_end"))
        rest = [json.loads(line.removeprefix("data: ")) for line in lines]

    assert [(chunk["type"], chunk.get("delta")) for chunk in (*first, *rest)] == [
        ("RUN_STARTED", None),
        ("TEXT_MESSAGE_START", None),
        ("TEXT_MESSAGE_CONTENT", "I lo"),
        ("TEXT_MESSAGE_CONTENT", "ok."),
        ("TEXT_MESSAGE_END", None),
        ("RUN_FINISHED", None),
    ]
    assert (first[0]["threadId"], first[0]["runId"]) == (base.rpartition("/")[2], "t1")
    assert httpx2.get(f"{base}/ag-ui").status_code == 204


@pytest.mark.slow
def test_a_run_ends_when_its_session_is_deleted(base: str) -> None:
    post(base, event("turn_start", trigger="user"), event("assistant_chunk", text="I lo"))

    with httpx2.stream("GET", f"{base}/ag-ui") as response:
        lines = filter(lambda line: line.startswith("data: "), response.iter_lines())
        assert "RUN_STARTED" in next(lines)
        httpx2.delete(base).raise_for_status()
        last = [json.loads(line.removeprefix("data: ")) for line in lines][-1]

    assert (last["type"], last["code"]) == ("RUN_ERROR", "cut_off")
