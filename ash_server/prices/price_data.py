"""Price data in the form of genai-prices (its v2 JSON), checked before it is used."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from decimal import Decimal
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple

from genai_prices import types
from pydantic import ConfigDict, TypeAdapter, ValidationError

from ash_server.prices.errors import PricesError
from ash_server.prices.own_prices import MAX_PRICE

MAX_BYTES = 16 * 1024 * 1024
MIN_MODELS = 500
"""Data with fewer models is incomplete."""

PriceLists = dict[str, list[types.ModelInfo]]
"""Models by provider."""

_PRICES = TypeAdapter(dict[str, Decimal | types.TieredPrices | None])
_MODELS = TypeAdapter(list[types.ModelInfo], config=ConfigDict(arbitrary_types_allowed=True))


class StoredPrices(NamedTuple):
    """The file that `ash prices update` writes."""

    fetched: datetime
    lists: PriceLists
    digest: str
    """Eight digits of the SHA-256 of the file."""


def read_update(path: Path, package: str) -> StoredPrices | None:
    """Return the updated prices; None if genai-prices has been updated since. Raises PricesError."""
    advice = "run `ash prices update` again, or delete the file"
    try:
        with path.open("rb") as file:
            content = file.read(2 * MAX_BYTES + 1)
        stored = decode(content)
        if stored["package"] != package:
            return None
        fetched, lists = datetime.fromisoformat(stored["fetched"]), read_price_lists(stored["providers"])
        return StoredPrices(fetched, lists, sha256(content).hexdigest()[:8])
    except OSError as error:
        raise PricesError(f"the prices in {path} cannot be read: {error.strerror}") from error
    except (KeyError, TypeError, ValueError) as error:
        raise PricesError(f"{path} is not a file of `ash prices update`; {advice}") from error
    except PricesError as error:
        raise PricesError(f"{path} is invalid: {error.detail}; {advice}") from error


def decode(content: bytes) -> Any:
    """Raises PricesError."""
    try:
        return json.loads(content, parse_float=Decimal)
    except (ValueError, RecursionError) as error:
        raise PricesError("the data is not JSON") from error


def read_price_lists(data: Any) -> PriceLists:
    """Return the models of decoded data. Raises PricesError for other data, and for prices out of bounds."""
    try:
        lists = {provider["id"]: _read_models(provider["models"]) for provider in data}
    except (KeyError, TypeError, AttributeError) as error:
        raise PricesError("the data is not a list of providers with models") from error
    if (count := sum(map(len, lists.values()))) < MIN_MODELS:
        raise PricesError(f"the data has {count} models only")
    return lists


def _read_models(models: Sequence[Mapping[str, Any]]) -> list[types.ModelInfo]:
    read = [_read_model(model) for model in models]
    for model in read:
        if not model.prices:
            raise PricesError(f"{model.id} has no prices")
        for regex in _regexes(model.match):
            try:
                re.compile(regex)
            except re.error as error:
                raise PricesError(f"{model.id} has an invalid pattern") from error
    return read


def _read_model(model: Mapping[str, Any]) -> types.ModelInfo:
    name, prices, variants = model["id"], model["prices"], model.get("price_variants") or []
    read = {
        "id": name,
        "match": model["match"],
        "prices": _read_prices(name, prices)
        if isinstance(prices, dict)
        else [{**each, "prices": _read_prices(name, each["prices"])} for each in prices],
        "price_variants": [{**each, "prices": _read_prices(name, each["prices"])} for each in variants],
    }
    try:
        return _MODELS.validate_python([read])[0]
    except ValidationError as error:
        raise PricesError(f"{name}: {_first_error(error)}") from error


def _read_prices(name: str, prices: Any) -> types.ModelPrice:
    try:
        read = _PRICES.validate_python(prices)
    except ValidationError as error:
        raise PricesError(f"{name}: {_first_error(error)}") from error
    for key, value in read.items():
        if not all(price.is_finite() and 0 <= price <= MAX_PRICE for price in _numbers(value)):
            raise PricesError(f"{name}: {key} is not a price from 0 to {MAX_PRICE:,}")
    return types.ModelPrice(**read)


def _numbers(value: Decimal | types.TieredPrices | None) -> Iterator[Decimal]:
    if isinstance(value, types.TieredPrices):
        yield from (value.base, *(tier.price for tier in value.tiers))
    elif value is not None:
        yield value


def _regexes(clause: types.MatchLogic) -> Iterator[str]:
    match clause:
        case types.ClauseRegex(regex):
            yield regex
        case types.ClauseOr(clauses) | types.ClauseAnd(clauses):
            yield from (regex for each in clauses for regex in _regexes(each))


def _first_error(error: ValidationError) -> str:
    first = error.errors(include_input=False, include_url=False, include_context=False)[0]
    return f"{'.'.join(map(str, first['loc'][:6]))}: {first['msg']}"
