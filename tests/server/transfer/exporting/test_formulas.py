"""Pages without formulas do not contain the library for them."""

import msgspec
import pytest

from ash_server.store.log.events import StoredEvent
from ash_server.transfer.exporting.formulas import has_formula
from tests.shared.records.events import wire_event

TEXTS = {
    "costs $5 and $10": False,
    "echo $HOME/$USER ${A}$": False,
    '"$A" "$B"': False,
    "$x$": True,
    "a\n$x_1$, b": True,
    "$\\frac{a}{b}$": True,
    "$a\n$b": False,
    "> $$\n> a\n> $$": True,
    "\\(a\\)": True,
    "a\n\\[ b\n\\]": True,
    "\\(a": False,
    "$x": False,
}


@pytest.mark.parametrize(("text", "expected"), TEXTS.items())
def test_texts_with_formulas(text: str, expected: bool) -> None:
    assert has_formula(event("user_message", text)) is expected


def test_formulas_in_parts_of_a_text() -> None:
    """The end of the formula is in another event."""
    assert has_formula(event("assistant_chunk", "$x"))
    assert not has_formula(event("assistant_chunk", "x"))


def event(type: str, text: str) -> StoredEvent:
    return StoredEvent(1, type, None, msgspec.json.encode(wire_event(type, text=text)))
