"""What is painted anew becomes what it is, and keeps what somebody has there."""

from playwright.async_api import Page

_BECOMES = """async ([before, after]) => {
  const { become, el } = await import("/viewer/dom.js");
  const { jsonView } = await import("/viewer/json-view.js");
  const shown = (value) => el("div", {}, el("p", {}, "beside"), el("div", {}, jsonView(value)));
  const element = shown(before);
  document.body.append(element);
  const beside = element.firstChild;
  become(element, shown(after));
  while (element.querySelector("details:not([open])")) {
    element.querySelectorAll("details:not([open])").forEach((details) => (details.open = true));
    await new Promise((done) => setTimeout(done, 50));
  }
  return [element.textContent, element.firstChild === beside];
}"""


async def test_what_is_not_yet_opened_is_what_came_last(blank: Page) -> None:
    """Two trees of the same keys look alike as long as they are closed."""
    first, last = ({"many": {f"key {n}": value for n in range(60)}} for value in ("first", "last"))

    told, is_kept = await blank.evaluate(_BECOMES, [first, last])

    assert (told.count("first"), told.count("last"), is_kept) == (0, 60, True)
