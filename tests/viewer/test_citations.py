"""Citation marks, source lists and error titles."""

from typing import Any

import pytest
from playwright.async_api import Page

_PAINTED = """async (parts) => {
  const { citedText } = await import("/viewer/render/citations.js");
  const holder = document.createElement("div");
  const texts = parts.map(({ text }) => text);
  holder.append(...citedText(texts.join(""), parts.map((payload) => ({ payload }))));
  const sources = [...holder.querySelectorAll(".sources li")].map((each) => each.firstChild.textContent);
  holder.querySelectorAll(".sources, [dir]").forEach((each) => (each.matches(".sources") ? each.remove() : 0));
  const marks = [...holder.querySelectorAll(".marks > *")].map((each) => each.getAttribute("href") ?? each.title);
  return [holder.textContent.trim(), marks, sources.map((each) => each.split(/\\s*\\n\\s*/)[0])];
}"""


def source(name: str, **more: str) -> dict[str, str]:
    return {"url": f"https://{name}.example/", "title": name, "cited_text": "so", **more}


@pytest.mark.parametrize(
    ("parts", "shown"),
    [
        (
            [
                ("It is 7", [source("a")]),
                (", so ", None),
                ("**it is odd.**", [source("b"), source("a")]),
                (" Yes.", None),
            ],
            [
                "It is 7¹, so it is odd.¹\u2009² Yes.",
                [f"https://{name}.example/" for name in "aab"],
                ["a", "b"],
            ],
        ),
        ([("- one\n- ", None), ("two\n", [source("a")])], ["onetwo¹", ["https://a.example/"], ["a"]]),
        (
            [
                (
                    "Of a file",
                    [{"document_title": "f.pdf", "document_index": n, "cited_text": "x"} for n in (0, 1)],
                )
            ],
            ["Of a file¹\u2009²", ["f.pdf", "f.pdf"], ["f.pdf", "f.pdf"]],
        ),
        ([("Bad", [source("a", url="javascript:1")])], ["Bad¹", ["a"], ["a"]]),
        (
            [("Of another kind", [{"url": "https://u.example/", "end_index": 2}])],
            ["Of another kind", [], ["https://u.example/"]],
        ),
        ([("\u2e00\u2e01", [source("a")])], ["\u2e00\u2e01¹", ["https://a.example/"], ["a"]]),
    ],
)
async def test_citation_marks_and_sources(
    blank: Page, parts: list[tuple[str, Any]], shown: list[Any]
) -> None:
    payloads = [
        {"text": text, **({"citations": citations} if citations else {})} for text, citations in parts
    ]

    assert await blank.evaluate(_PAINTED, payloads) == shown


_ERROR = """async (payload) => {
  const { paint } = await import("/viewer/render/painters.js");
  const shown = paint({ kind: "event", seq: 1, event: { id: "e", type: "error", payload } }, {});
  return ["strong", "details.aside > summary"].map((each) => shown.querySelector(each)?.textContent);
}"""


@pytest.mark.parametrize(
    ("payload", "shown"),
    [
        ({"code": "turn.failed", "details": {"a": 1}}, ["The turn failed turn.failed", "Details"]),
        ({"code": "api_error"}, ["The API answered with an error api_error", None]),
        ({"code": "storm"}, ["Error storm", None]),
        ({"code": "error"}, ["Error", None]),
        ({"code": "constructor"}, ["Error constructor", None]),
    ],
)
async def test_errors_have_readable_titles(
    blank: Page, payload: dict[str, Any], shown: list[str | None]
) -> None:
    assert await blank.evaluate(_ERROR, {"message": "m", **payload}) == shown
