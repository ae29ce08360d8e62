"""`ash prices update`: fetching, checking and storing price data."""

import copy
import json
import ssl
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID

from ash_server.prices import Cost, PriceFiles
from ash_server.prices import price_data as price_data_module
from ash_server.prices.errors import PricesError
from ash_server.prices.price_data import MIN_MODELS
from ash_server.prices.prices import UPDATED_FILE
from ash_server.prices.update import update_prices
from ash_server.settings import Settings
from tests.server.prices.usages import DOLLAR, MILLION, Usage, day

MODELS: list[dict[str, Any]] = [
    {
        "id": "claude-new-1",
        "name": "Claude New 1",
        "match": {"or": [{"starts_with": "claude-new-1"}, {"regex": "^claude-1-new$"}]},
        "prices": [
            {
                "prices": {
                    "input_mtok": {"base": 3, "tiers": [{"start": 150_000, "price": 6.5}]},
                    "output_mtok": 15,
                }
            },
            {"constraint": {"start_date": "2026-03-13"}, "prices": {"input_mtok": 3.25, "output_mtok": 15}},
            {
                "constraint": {"start_time": "00:30:00Z", "end_time": "16:30:00Z"},
                "prices": {"input_mtok": 4, "output_mtok": 15},
            },
        ],
        "price_variants": [
            {
                "when": {"processing": "batch"},
                "prices": {"input_mtok": 1.5},
                "constraint": {"start_date": "2026-03-13"},
            }
        ],
        "a_later_field": [1],
    },
    *({"id": f"m{n}", "match": {"equals": f"m{n}"}, "prices": {"input_mtok": 1}} for n in range(MIN_MODELS)),
]
DATA: list[dict[str, Any]] = [{"id": "anthropic", "name": "Anthropic", "api_pattern": "x", "models": MODELS}]


class _Handler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.server.answer(self)  # type: ignore[attr-defined]

    def log_message(self, format: str, *args: Any) -> None: ...


class TlsServer(ThreadingHTTPServer):
    """Answers on https with a certificate of its own."""

    answer: Callable[[BaseHTTPRequestHandler], None]

    def __init__(self, folder: Path) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        certificate = _write_certificate(folder)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate)
        self.socket = context.wrap_socket(self.socket, server_side=True)
        self.trusting = ssl.create_default_context(cafile=certificate)
        self.url = f"https://localhost:{self.server_port}/data.json"

    def send(self, body: bytes, status: int = 200, **headers: str) -> None:
        """Answer the next requests with this."""

        def answer(handler: BaseHTTPRequestHandler) -> None:
            handler.send_response(status)
            for name, value in headers.items():
                handler.send_header(name, value)
            handler.end_headers()
            with suppress(OSError):  # the client has seen enough
                handler.wfile.write(body)

        self.answer = answer


def _write_certificate(folder: Path) -> Path:
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "localhost")])
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost")]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    path = folder / "certificate.pem"
    private = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    path.write_bytes(private + certificate.public_bytes(Encoding.PEM))
    return path


@pytest.fixture
def server(tmp_path: Path) -> Iterator[TlsServer]:
    with TlsServer(tmp_path) as server:
        thread = Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def encoded(data: Any) -> bytes:
    return json.dumps(data).encode()


def changed(**fields: Any) -> bytes:
    """The data, with other fields of its first model."""
    data = copy.deepcopy(DATA)
    data[0]["models"][0].update(fields)
    return encoded(data)


def test_an_update_replaces_the_prices(server: TlsServer, tmp_path: Path) -> None:
    """A running server uses them, and the former file stays beside the new one."""
    home = tmp_path / "home"
    path = home / UPDATED_FILE
    files = PriceFiles(Settings(home=home))
    package = files.load()
    server.send(encoded(DATA))
    first = update_prices(path, server.url, tls=server.trusting)
    before = path.read_bytes()
    updated = files.load()
    server.send(changed(prices={"input_mtok": 9, "output_mtok": 15}))
    second = update_prices(path, server.url, tls=server.trusting)

    usage = Usage("claude-new-1", input_tokens=MILLION, quarter=day("2026-11-20T20:00"))
    assert (first, second) == (
        (path, MIN_MODELS + 1, None),
        (path, MIN_MODELS + 1, home / "prices.json.previous"),
    )
    assert (home / "prices.json.previous").read_bytes() == before
    assert sorted(each.name for each in home.iterdir()) == ["prices.json", "prices.json.previous"]
    assert [each.cost(usage) for each in (package, updated, files.load())] == [
        Cost(None, "unknown_model"),
        Cost(3_250_000_000),
        Cost(9 * DOLLAR),
    ]
    assert updated.revision.startswith(f"{package.revision}, updated 2")
    assert files.load().revision != updated.revision  # although it was updated in the same minute


def test_all_forms_of_prices_are_read(server: TlsServer, tmp_path: Path) -> None:
    server.send(encoded(DATA))
    update_prices(tmp_path / UPDATED_FILE, server.url, tls=server.trusting)
    prices = PriceFiles(Settings(home=tmp_path)).load()
    usages = [
        Usage("claude-1-new", input_tokens=150_000, quarter=day("2026-03-12T16:30")),
        Usage("claude-new-1-20260101", input_tokens=150_001, quarter=day("2026-03-12T16:30")),
        Usage("claude-new-1", input_tokens=MILLION, quarter=day("2026-03-13T16:30")),
        Usage("claude-new-1", input_tokens=MILLION, quarter=day("2026-03-13T16:15")),
        Usage("claude-new-1", input_tokens=MILLION, quarter=day("2026-03-13T16:30"), service_tier="batch"),
    ]

    assert [prices.cost(each) for each in usages] == [
        Cost(450_000_000),
        Cost(975_006_500),
        Cost(3_250_000_000),
        Cost(4 * DOLLAR),
        Cost(1_500_000_000),
    ]


def test_the_prices_of_a_newer_package_replace_an_update(
    server: TlsServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.send(encoded(DATA))
    monkeypatch.setattr("ash_server.prices.update.version", lambda name: "0.0.1")
    update_prices(tmp_path / UPDATED_FILE, server.url, tls=server.trusting)

    prices = PriceFiles(Settings(home=tmp_path)).load()

    assert "updated" not in prices.revision
    assert prices.cost(Usage("claude-sonnet-5", input_tokens=MILLION)) == Cost(2 * DOLLAR)


@pytest.mark.parametrize(
    ("body", "status", "headers", "message"),
    [
        (b"", 200, {}, "the data is not JSON"),
        (b"<html>", 200, {}, "the data is not JSON"),
        (encoded(DATA)[:-10], 200, {}, "the data is not JSON"),
        (encoded(DATA) + b"{}", 200, {}, "the data is not JSON"),
        (b"[" * 100_000, 200, {}, "the data is not JSON"),
        (b"{}", 200, {}, "the data has 0 models only"),
        (b"[1]", 200, {}, "the data is not a list of providers with models"),
        (encoded([{**DATA[0], "models": MODELS[: MIN_MODELS - 1]}]), 200, {}, f"has {MIN_MODELS - 1} models only"),
        (changed(match={"like": "x"}), 200, {}, "claude-new-1: 0.match: "),
        (changed(match={"regex": "("}), 200, {}, "claude-new-1 has an invalid pattern"),
        (changed(prices={"input_mtok": -1}), 200, {}, "claude-new-1: input_mtok is not a price from 0 to 10,000"),
        (changed(prices={"input_mtok": 10_000.01}), 200, {}, "claude-new-1: input_mtok is not a price from 0"),
        (
            changed(prices={"input_mtok": {"base": 1, "tiers": [{"start": 1, "price": 20_000}]}}),
            200,
            {},
            "claude-new-1: input_mtok is not a price from 0 to 10,000",
        ),
        (changed(prices={"input_mtok": float("nan")}), 200, {}, "claude-new-1: input_mtok"),
        (changed(prices={"input_mtok": "much"}), 200, {}, "claude-new-1: input_mtok"),
        (changed(prices=[{"constraint": {"start_date": "May"}, "prices": {}}]), 200, {}, "claude-new-1: 0.prices"),
        (changed(prices=[]), 200, {}, "claude-new-1 has no prices"),
        (b"", 404, {}, "answers with status 404"),
        (b"", 301, {"Location": "https://elsewhere.example/"}, "redirects to another address, which is not followed"),
        (b"", 302, {"Location": "/data.json"}, "redirects to another address, which is not followed"),
    ],
)  # fmt: skip
def test_other_answers_leave_the_prices_unchanged(
    server: TlsServer, tmp_path: Path, body: bytes, status: int, headers: dict[str, str], message: str
) -> None:
    path = tmp_path / UPDATED_FILE
    path.write_text("before")
    server.send(body, status, **headers)

    with pytest.raises(PricesError, match="the prices are unchanged") as error:
        update_prices(path, server.url, tls=server.trusting)

    assert message in error.value.detail
    assert path.read_text() == "before"
    assert {each.name for each in tmp_path.iterdir()} == {"certificate.pem", UPDATED_FILE}


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("http://localhost/data.json", "is not an https address"),
        ("file:///etc/passwd", "is not an https address"),
        ("https:///data.json", "is not an https address"),
        ("https://user:word@localhost/", "is not an https address without a password"),
        ("https://localhost:1/data.json", "localhost cannot be reached"),
    ],
)
def test_only_https_addresses_are_fetched(tmp_path: Path, url: str, message: str) -> None:
    with pytest.raises(PricesError) as error:
        update_prices(tmp_path / UPDATED_FILE, url)

    assert message in error.value.detail


def test_a_large_answer_is_not_read_to_its_end(
    server: TlsServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ash_server.prices.update.MAX_BYTES", 2**20)
    server.send(b" " * 2**24)

    with pytest.raises(PricesError, match="exceeds 1 MiB; the prices are unchanged"):
        update_prices(tmp_path / UPDATED_FILE, server.url, tls=server.trusting)


def test_an_unknown_certificate_is_refused(server: TlsServer, tmp_path: Path) -> None:
    server.send(encoded(DATA))

    with pytest.raises(PricesError, match=r"localhost cannot be reached .*certificate"):
        update_prices(tmp_path / UPDATED_FILE, server.url)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "is invalid: the data is not JSON"),
        ("[]", "is not a file of `ash prices update`"),
        (
            '{"package": "PACKAGE", "fetched": "today", "providers": []}',
            "is not a file of `ash prices update`",
        ),
        (
            '{"package": "PACKAGE", "fetched": "2026-11-28", "providers": []}',
            "is invalid: the data has 0 models only",
        ),
    ],
)
def test_a_damaged_file_is_an_error(tmp_path: Path, text: str, message: str) -> None:
    from genai_prices import __version__

    (tmp_path / UPDATED_FILE).write_text(text.replace("PACKAGE", __version__))

    with pytest.raises(PricesError) as error:
        PriceFiles(Settings(home=tmp_path)).load()

    assert message in error.value.detail
    assert "run `ash prices update` again, or delete the file" in error.value.detail


def test_a_large_file_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(price_data_module, "MAX_BYTES", 10)
    (tmp_path / UPDATED_FILE).write_text(json.dumps({"package": "x" * 100}))

    with pytest.raises(PricesError, match="is invalid"):
        PriceFiles(Settings(home=tmp_path)).load()
