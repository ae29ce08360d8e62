import json
from typing import Any

import pytest
from pydantic import BaseModel

from ash_shared import parse_cli_output
from tests.shared.records import claude


class Verdict(BaseModel):
    passed: int


def reply(text: str) -> dict[str, Any]:
    return claude.line("assistant", [claude.text(text)], {"id": "m", "model": "m1"}, session_id="s1")


def result(text: str | None, **more: Any) -> dict[str, Any]:
    return {**claude.result(text), "result": text, "session_id": "s1", **more}


def output(*records: Any) -> str:
    return "".join(json.dumps(record) + "\n" for record in records)


FAILED = {"type": "result", "subtype": "error_during_execution", "is_error": True, "errors": ["No."]}

ANSWERS: dict[str, tuple[str, int, tuple[Any, str, str | None]]] = {
    "text": (output(reply("All pass."), result("All pass.")), 0, ("All pass.", "success", "s1")),
    "one pretty document": (json.dumps(result("Done."), indent=2), 0, ("Done.", "success", "s1")),
    "plain text": ("Done.\n", 0, ("Done.", "success", None)),
    "plain text in lines": ("Done:\n- a\n- b\n", 0, ("Done:\n- a\n- b", "success", None)),
    "no output": ("", 1, (None, "error", None)),
    "a run without an answer": (
        output({"type": "system", "subtype": "init", "session_id": "s1"}),
        0,
        (None, "success", "s1"),
    ),
    "a cut record": (output(reply("I try."))[:-9], 0, (None, "success", None)),
    "a warning before the records": (
        "Warning: old version\n" + output(reply("Done.")),
        0,
        ("Done.", "success", "s1"),
    ),
    "a failed run": (output(reply("I try."), FAILED), 1, ("I try.", "error", "s1")),
    "an error before the answer": (
        output(FAILED, reply("Now it works.")),
        0,
        ("Now it works.", "success", "s1"),
    ),
    "killed": (output(reply("I try.")), 137, ("I try.", "error", "s1")),
}


@pytest.mark.parametrize("name", ANSWERS)
def test_reads_answer_status_and_session(name: str) -> None:
    stdout, exit_code, expected = ANSWERS[name]

    response = parse_cli_output(stdout, "claude", duration=1.5, exit_code=exit_code)

    dumped = response.model_dump(mode="json", by_alias=True)
    assert (dumped["data"], dumped["status"], dumped.get("sessionId")) == expected
    assert (dumped["exitCode"], dumped["duration"]) == (exit_code, 1.5)
    assert ("error" in dumped) == (dumped["status"] == "error")


STRUCTURED: dict[str, tuple[str, Verdict | str]] = {
    "the whole text": ('{"passed": 3}', Verdict(passed=3)),
    "in a fence": ('Here:\n```json\n{"passed": 3}\n```\nand ```more```', Verdict(passed=3)),
    "in a sentence": ('The set {a, b} and [1] and {"passed": 3}.', Verdict(passed=3)),
    "the first match": ('{"failed": 1} {"passed": 3} {"passed": 4}', Verdict(passed=3)),
    "no JSON": ("All pass.", "There is no JSON in the answer."),
    "of another schema": ('{"failed": 1}', "The JSON in the answer does not fit."),
}


@pytest.mark.parametrize("name", STRUCTURED)
def test_reads_structured_answers(name: str) -> None:
    text, expected = STRUCTURED[name]

    response = parse_cli_output(output(reply(text)), duration=1, exit_code=0, response_model=Verdict)

    assert response.model_dump_json()
    if isinstance(expected, Verdict):
        assert (response.data, response.status) == (expected, "success")
    else:
        error = response.model_dump()["error"]
        assert (response.data, response.status, error["message"]) == (None, "error", expected)


def structured_call(**input: int) -> dict[str, Any]:
    call = {"type": "tool_use", "id": "t1", "name": "StructuredOutput", "input": input}
    return claude.line("assistant", [call], {"id": "m"})


def test_structured_output_precedes_the_answer() -> None:
    text = result('{"passed": 1}')
    runs = {
        3: [structured_call(passed=2), text | {"structured_output": {"passed": 3}}],
        2: [structured_call(passed=9), structured_call(passed=2), text],
        1: [structured_call(failed=1), text | {"structured_output": None}],
        4: [result(None, structured_output={"passed": 4})],
    }

    parsed = {
        passed: parse_cli_output(output(*records), response_model=Verdict).data
        for passed, records in runs.items()
    }

    assert parsed == {passed: Verdict(passed=passed) for passed in runs}


def test_role_of_plain_text() -> None:
    answers = {
        "Done.\nBye.": ["assistant"],
        "Warning: old\n" + output(reply("Done.")): ["system", "assistant"],
    }
    for stdout, roles in answers.items():
        response = parse_cli_output(stdout, duration=1, exit_code=0)

        assert [message.role for message in response.messages] == roles


PRINTED: dict[str, tuple[dict[str, Any], tuple[str, str]]] = {
    "a text": ({"error": "No credit."}, ("error", "No credit.")),
    "a message": ({"message": "No credit."}, ("error", "No credit.")),
    "a message and a code": ({"message": "No credit.", "code": "credit"}, ("credit", "No credit.")),
    "a message and a session": ({"message": "No credit.", "session_id": "s1"}, ("error", "No credit.")),
    "an error of the API": (
        {"error": {"type": "overloaded_error", "message": "Overloaded"}},
        ("overloaded_error", "Overloaded"),
    ),
}


@pytest.mark.parametrize("source", [None, "claude"])
@pytest.mark.parametrize("name", PRINTED)
def test_printed_error_is_the_error_of_the_run(name: str, source: str | None) -> None:
    fields, expected = PRINTED[name]

    response = parse_cli_output(output(reply("I try."), {"type": "error", **fields}), source)

    error = response.model_dump()["error"]
    assert (response.data, response.status) == ("I try.", "error")
    assert (error["code"], error["message"]) == expected
