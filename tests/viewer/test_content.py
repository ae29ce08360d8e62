"""The content of messages on the page of a session: tags, formulas, alerts, footnotes, directions, hidden text."""

import httpx2
from playwright.async_api import expect

from tests.viewer.logs import numbered
from tests.viewer.sessions import Session
from tests.viewer.tabs import Tabs
from tests.viewer.test_accessibility import OPEN, SCREENS, problems_on_all_screens, visiting

TEXT = """# Kites

Press <kbd>Ctrl</kbd>, H<sub>2</sub>O, x<sup>2</sup>, bea@kites.example[^1][^2], $x_1$.

> [!NOTE]
> a

> [!TIP]
> b

> [!IMPORTANT]
> c

> [!WARNING]
> d

> [!CAUTION]
> e

<details>
<summary>f</summary>

g
</details>

$$
\\int_0^1 x\\,dx
$$

a\u202eevil\u202c

[^1]: h
[^2]: i
"""
ARABIC = "- قائمة `mean()`\n- [x] ب\n\n> اقتباس\n\n|ت|ب|\n|-|-|\n|1|2|\n\n> [!NOTE]\n> نص\n"
COPIED = """
(shown) => {
  const clipboardData = new DataTransfer();
  getSelection().selectAllChildren(shown);
  const isCopiedAsUsual = document.dispatchEvent(new ClipboardEvent("copy", { clipboardData, cancelable: true }));
  return isCopiedAsUsual ? null : clipboardData.getData("text/plain").trim();
}
"""
COMMAND = "echo \u202etxt.exe\u202c"

LAYOUT = """
() => {
  const [arabic] = [...document.querySelectorAll(".assistant-text")].slice(-1);
  const style = (selector) => getComputedStyle(arabic.querySelector(selector));
  const left = (node, index) => {
    const range = document.createRange();
    range.setStart(node, index);
    range.setEnd(node, index + 1);
    return range.getBoundingClientRect().left;
  };
  const isInOrder = (node) => {
    const places = [...node.data].map((_, index) => left(node, index));
    return places.every((place, index) => index === 0 || places[index - 1] < place);
  };
  const [first, second] = arabic.querySelectorAll("td");
  const mark = arabic.querySelector(".task-mark").getBoundingClientRect();
  const evil = document.querySelector(".assistant-text .hidden-characters").nextSibling;
  return {
    bullets: parseFloat(style("ul").paddingRight) > 0,
    bar: style("blockquote").borderRightWidth,
    alert: style(".alert").borderRightWidth,
    columns: first.getBoundingClientRect().left > second.getBoundingClientRect().left,
    task: mark.left > arabic.querySelector("li:has(> .task-mark)").getBoundingClientRect().right,
    code: isInOrder(arabic.querySelector("code").firstChild),
    hidden: isInOrder(evil),
  };
}
"""


async def test_content_of_messages(
    tabs_without_policy: Tabs, complaints: list[str], session: Session, client: httpx2.AsyncClient
) -> None:
    events = [
        {"type": "turn_start", "payload": {"trigger": "user"}},
        {"type": "user_message", "payload": {"text": "# Kites"}},
        {
            "type": "tool_call",
            "payload": {"toolCallId": "c", "toolName": "Bash", "args": {"command": COMMAND}},
        },
        {"type": "tool_result", "payload": {"toolCallId": "c", "result": "\u2066a"}},
        {"type": "assistant_done", "payload": {"text": TEXT}},
        {"type": "assistant_done", "payload": {"text": ARABIC}},
        {"type": "turn_end", "payload": {}},
    ]
    await session.add_log(*numbered({"turnId": "t", "timestamp": 1, **event} for event in events))

    async with visiting(tabs_without_policy, complaints, session.address, "wide") as page:
        await expect(page.locator(".math-drawn > math")).to_have_count(2)
        space = await page.locator("div.math").evaluate(
            "(box) => Math.round(box.clientHeight - box.querySelector('math').getBoundingClientRect().height)"
        )
        copied_text = await page.locator("p:has(.math)").evaluate(COPIED)
        closed = await page.locator("pre.tool-args .hidden-characters").count()
        await page.evaluate(OPEN)
        violations = await problems_on_all_screens(page)
        layout = await page.evaluate(LAYOUT)
        command = page.locator(".tool-call pre.command")
        codes = await command.locator(".hidden-characters").evaluate_all(
            "all => all.map((each) => each.dataset.code)"
        )
        copied = await command.evaluate(
            "(command) => { getSelection().selectAllChildren(command); return `${getSelection()}`; }"
        )
        await page.locator(".footnote-mark > a").last.click()
        await expect(page.locator(".footnotes > li").last).to_be_focused()
        await page.locator(".footnotes > li").last.locator("a").press("Enter")
        await expect(page.locator(".footnote-mark > a").last).to_be_focused()
        headings = await page.locator("h1, .chat-log :is(h3, h4, h5, h6)").evaluate_all(
            "all => all.map((each) => each.localName)"
        )

    assert violations == {screen: [] for screen in SCREENS}
    assert layout == {
        "bullets": True,
        "bar": "2px",
        "alert": "4px",
        "columns": True,
        "task": True,
        "code": True,
        "hidden": True,
    }
    assert (closed, codes, copied.strip()) == (2, ["U+202E", "U+202C"], COMMAND)
    assert space == 0
    assert copied_text == "Press Ctrl, H2O, x2, bea@kites.example12, $x_1$."
    assert headings == ["h1", "h3", "h3"]
