"""One's own prices of models, in the file that `ASH_PRICES` names: docs/usage.md describes it."""

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from datetime import date
from decimal import Decimal
from hashlib import sha256
from pathlib import Path
from typing import Any

from genai_prices import types

from ash_server.prices.errors import PricesError
from ash_server.prices.names import normalize

MAX_PRICE = 10_000
"""Dollars per million tokens, or per thousand searches."""
MAX_FILE_BYTES = 1024 * 1024

_FIELDS = {
    "input": "input_mtok",
    "output": "output_mtok",
    "cache_read": "cache_read_mtok",
    "cache_write": "cache_write_mtok",
    "cache_write_1h": "cache_write_1h_mtok",
    "web_search": "web_searches_kcount",
}
_REQUIRED = ("input", "output")


class OwnPrices:
    def __init__(self, models: Mapping[str, types.ModelInfo], digest: str = "") -> None:
        self._models = models
        self.digest = digest
        """Eight digits of the SHA-256 of the file."""

    def find(self, name: str) -> types.ModelInfo | None:
        """Return the prices of exactly this name, otherwise of its longest prefix."""
        prefixes = (f"{name[:length]}*" for length in range(len(name), -1, -1))
        return next((self._models[key] for key in (name, *prefixes) if key in self._models), None)

    def __iter__(self) -> Iterator[types.ModelInfo]:
        return iter(self._models.values())


def read_own_prices(path: Path) -> OwnPrices:
    """Raises PricesError, which names the line or the key."""
    try:
        with path.open("rb") as file:
            content = file.read(MAX_FILE_BYTES + 1)
    except OSError as error:
        raise PricesError(f"the prices in ASH_PRICES={path} cannot be read: {error.strerror}") from error
    if len(content) > MAX_FILE_BYTES:
        raise PricesError(
            f"{path} is larger than {MAX_FILE_BYTES // 1024} KiB; it lists prices of models only"
        )
    return OwnPrices(_parse(path, content), sha256(content).hexdigest()[:8])


def _parse(path: Path, content: bytes) -> dict[str, types.ModelInfo]:
    try:
        document = json.loads(content, parse_float=Decimal, parse_constant=Decimal, object_pairs_hook=_unique)
    except json.JSONDecodeError as error:
        raise PricesError(f"{path}, line {error.lineno}: {error.msg}; the file is one JSON object") from error
    except (ValueError, RecursionError) as error:
        raise PricesError(f"{path}: {error}") from error
    if not isinstance(document, dict):
        raise PricesError(
            f'{path}: the file is one JSON object, such as {{"my-model": {{"input": 1, "output": 4}}}}'
        )
    return {normalize(name): _read_model(path, name, value) for name, value in document.items()}


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    counts = Counter(name for name, _ in pairs)
    if twice := next((name for name, count in counts.items() if count > 1), None):
        raise ValueError(f'"{twice}" occurs twice; remove one of them')
    return dict(pairs)


def _read_model(path: Path, name: str, value: Any) -> types.ModelInfo:
    place = f'{path}: "{name}"'
    if not name.strip("*") or "*" in name[:-1]:
        raise PricesError(f"{place} is the name of a model, or its beginning with * at the end")
    entries = value if isinstance(value, list) else [value]
    if not entries:
        raise PricesError(f"{place} has no prices; remove it")
    read = [
        _read_entry(f"{place}, entry {number}" if len(entries) > 1 else place, entry)
        for number, entry in enumerate(entries, 1)
    ]
    days = [since for since, _ in read]
    if None in days[1:] or (known := [day for day in days if day]) != sorted(set(known)):
        raise PricesError(f'{place}: each entry but the first needs a later "since" than the one before it')
    return types.ModelInfo(
        id=name,
        match=types.ClauseEquals(name),
        prices=[
            types.ConditionalPrice(types.StartDateConstraint(since) if since else None, prices=prices)
            for since, prices in read
        ],
    )


def _read_entry(place: str, entry: Any) -> tuple[date | None, types.ModelPrice]:
    if not isinstance(entry, dict):
        raise PricesError(f'{place} is an object, such as {{"input": 1, "output": 4}}')
    if unknown := next((field for field in entry if field not in _FIELDS and field != "since"), None):
        raise PricesError(f'{place}: "{unknown}" is not a price; the fields are since, {", ".join(_FIELDS)}')
    if missing := next((field for field in _REQUIRED if field not in entry), None):
        raise PricesError(f'{place} needs "{missing}", in dollars per million tokens')
    prices = {
        _FIELDS[field]: _read_price(f'{place}, "{field}"', value)
        for field, value in entry.items()
        if field != "since"
    }
    return _read_day(f'{place}, "since"', entry.get("since")), types.ModelPrice(**prices)


def _read_price(place: str, value: Any) -> Decimal:
    is_number = isinstance(value, int | Decimal) and not isinstance(value, bool)
    if not is_number or not (price := Decimal(value)).is_finite() or not 0 <= price <= MAX_PRICE:
        raise PricesError(f"{place} is a number from 0 to {MAX_PRICE:,}, in dollars")
    return price


def _read_day(place: str, value: Any) -> date | None:
    if value is None:
        return None
    try:
        return date.fromisoformat(value)
    except (TypeError, ValueError) as error:
        raise PricesError(f'{place} is a day such as "2026-07-01", in UTC') from error
