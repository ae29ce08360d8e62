"""Morphing elements in place."""

import pytest
from playwright.async_api import Page

_BECOMES = """async ([name, before, after]) => {
  const { morph, el } = await import("/viewer/lib/dom.js");
  const { jsonView } = await import("/viewer/lib/json-view.js");
  const { aside } = await import("/viewer/render/tools/body-parts.js");
  const MAKES = { "a tree": jsonView, "an aside": (value) => aside("More", value) };
  const shown = (value) => el("div", {}, el("p", {}, "sibling"), el("div", {}, MAKES[name](value)));
  const element = shown(before);
  document.body.append(element);
  const sibling = element.firstChild;
  morph(element, shown(after));
  while (element.querySelector("details:not([open])")) {
    element.querySelectorAll("details:not([open])").forEach((details) => (details.open = true));
    await new Promise((done) => setTimeout(done, 50));
  }
  return [element.textContent, element.firstChild === sibling];
}"""


@pytest.mark.parametrize("kind", ["a tree", "an aside"])
async def test_morph_replaces_closed_trees(blank: Page, kind: str) -> None:
    """Closed trees with the same keys have equal nodes."""
    first, last = ({"many": {f"key {n}": value for n in range(60)}} for value in ("first", "last"))

    text, is_kept = await blank.evaluate(_BECOMES, [kind, first, last])

    assert (text.count("first"), text.count("last"), is_kept) == (0, 60, True)
