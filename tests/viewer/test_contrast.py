"""Text has a contrast of at least 4.5 to 1 (WCAG AA) on all backgrounds, in both themes, and bars of 3 to 1."""

import re
from collections.abc import Iterator
from itertools import product
from pathlib import Path

import pytest

import ash_server

STYLES = Path(ash_server.__file__).parent / "viewer" / "styles"
LEAST = 4.5
LEAST_OF_GRAPHICS = 3

THEMES = ("light", "dark")
WORDS = ("text", "muted", "accent", "tool", "think", "ok", "err")
SERIES = (*(f"series-{number}" for number in range(1, 8)), "series-other")
TERMINAL = tuple(f"ansi-{number}" for number in range(16))
PAIRS = (
    *product(WORDS, ("bg", "surface", "raised", "hover", "user", "add", "del")),
    *product(("text",), ("add-word", "del-word", "match", "selected")),
    *product(TERMINAL, ("bg", "surface")),
    ("on-accent", "accent"),
    ("bg", "text"),
)
"""Text colours and their backgrounds."""

GROUND_OF_TERMINAL = 0.24
"""The share of colour in backgrounds set by terminal output (code.css)."""

_COMMENT = re.compile(r"/\*.*?\*/", re.DOTALL)
_BLOCK = re.compile(r"^(?P<where>\S[^{]*?) \{(?P<tokens>.*?)^\}", re.MULTILINE | re.DOTALL)
_COLOUR = re.compile(r"--([\w-]+): light-dark\(#([0-9a-f]{6}), #([0-9a-f]{6})\);")

RGB = tuple[float, float, float]


def test_text_contrast() -> None:
    assert list(_too_faint(_colours(None))) == []


@pytest.mark.parametrize("medium", [None, "prefers-contrast"])
def test_bars_contrast_with_the_page(medium: str | None) -> None:
    colours = _colours(medium)
    ratios = {
        (theme, name): _ratio(colours[theme][name], colours[theme]["bg"])
        for theme, name in product(THEMES, SERIES)
    }
    assert {bar: ratio for bar, ratio in ratios.items() if ratio < LEAST_OF_GRAPHICS} == {}


def test_high_contrast_theme_has_more_contrast() -> None:
    plain, more = _colours(None), _colours("prefers-contrast")
    assert list(_too_faint(more)) == []
    assert [
        f"{theme}: {name}"
        for theme, name in product(THEMES, ("text", "muted", "line", "line-strong", "accent"))
        if _ratio(more[theme][name], more[theme]["bg"]) < _ratio(plain[theme][name], plain[theme]["bg"])
    ] == []


def test_text_contrast_on_terminal_backgrounds() -> None:
    ratios = {
        f"{theme}: {tint} on {background}": _ratio(
            colours["text"], _mixed(colours[tint], colours[background], share=GROUND_OF_TERMINAL)
        )
        for theme, colours in _colours(None).items()
        for tint, background in product(TERMINAL, ("bg", "surface"))
    }
    assert {name: ratio for name, ratio in ratios.items() if ratio < LEAST} == {}


def test_code_in_diffs_has_colours_with_contrast() -> None:
    """Code has tested colours; changed words have the colour of text, as others are too faint behind them."""
    styles = (STYLES / "code.css").read_text()
    colours = set(re.findall(r"\.hljs-[\w-]+ \{ color: var\(--([\w-]+)\)", styles))

    assert colours
    assert colours <= set(WORDS)
    assert ".diff-lines :is(ins, del) > span {\n  color: var(--text);" in styles


@pytest.mark.parametrize("path", sorted(STYLES.glob("*.css")), ids=lambda path: path.name)
def test_colours_are_defined_as_tokens_only(path: Path) -> None:
    """Other style sheets contain no literal colours, except black in masks and white for printing."""
    if path.name == "tokens.css":
        return
    without = re.sub(r"url\(.*?\)|mask-image: .*?;|--bg: #ffffff;", "", path.read_text())
    assert re.findall(r"#[0-9a-fA-F]{3,8}\b|\b(?:rgb|hsl|oklch)a?\([^v].*?\)", without) == []


def _too_faint(colours: dict[str, dict[str, RGB]]) -> Iterator[str]:
    for theme, (front, background) in product(THEMES, PAIRS):
        ratio = _ratio(colours[theme][front], colours[theme][background])
        if ratio < LEAST:
            yield f"{theme}: {front} on {background}: {ratio:.2f}"


def _colours(medium: str | None) -> dict[str, dict[str, RGB]]:
    """Colours by theme and name, including colours of a medium."""
    result: dict[str, dict[str, RGB]] = {theme: {} for theme in THEMES}
    for block in _BLOCK.finditer(_COMMENT.sub("", (STYLES / "tokens.css").read_text())):
        if block["where"] == ":root" or (medium and medium in block["where"]):
            for name, *pair in _COLOUR.findall(block["tokens"]):
                for theme, colour in zip(THEMES, pair, strict=True):
                    result[theme][name] = _rgb(colour)
    return result


def _rgb(colour: str) -> RGB:
    red, green, blue = (int(colour[place : place + 2], 16) / 255 for place in (0, 2, 4))
    return red, green, blue


def _mixed(one: RGB, other: RGB, *, share: float) -> RGB:
    red, green, blue = (share * a + (1 - share) * b for a, b in zip(one, other, strict=True))
    return red, green, blue


def _ratio(one: RGB, other: RGB) -> float:
    dark, light = sorted((_luminance(one), _luminance(other)))
    return (light + 0.05) / (dark + 0.05)


def _luminance(colour: RGB) -> float:
    red, green, blue = (
        part / 12.92 if part <= 0.03928 else ((part + 0.055) / 1.055) ** 2.4 for part in colour
    )
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue
