"""One line for the status line of Claude Code: the cost of the session, of today, and of the five-hour block.

Claude Code runs the command after each answer, sends facts of the session as JSON, and shows the first line of the
output. So this module imports little of the standard library and nothing else, and waits at most 25 ms for the server.
The last answer is kept in a file: if the server is slower, the line has that one, and a process in the background asks
again.
"""

import json
import os
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, NoReturn

DEADLINE_SECONDS = 0.025
REFRESH_SECONDS = 5.0
"""How long the process in the background waits for the server."""
MAX_AGE_SECONDS = 600.0
"""Age of a kept answer beyond which it is not shown."""
MAX_ANSWER = 64 * 1024
_FILE = "statusline.json"
_PATH = "/api/usage/status"


def main() -> "NoReturn":
    """Print the line and exit; a server that does not answer in time costs its part of the line."""
    deadline = time.monotonic() + DEADLINE_SECONDS
    sent = _decode(sys.stdin.buffer.read())
    session = _text(sent.get("session_id"))
    answer = _ask_server(session, deadline)
    if answer is None:
        answer = recall(session)
        _start_refresh(session)
    elif answer:
        keep(session, answer)
    line = status_line(sent, answer, time.time())
    sys.stdout.buffer.write(line.encode("utf-8", "replace") + b"\n")
    sys.stdout.buffer.flush()
    os._exit(0)  # not through the thread that may still wait for the server


def status_line(sent: "dict[str, Any]", answer: "dict[str, Any]", now: float) -> str:
    """Return the line for facts `sent` by Claude Code and the `answer` of the server, which may be empty."""
    model = _text(_object(sent.get("model")).get("display_name"))
    session = _cost(answer.get("session"))
    if session is None:
        session = _number(_object(sent.get("cost")).get("total_cost_usd"))
    costs = [
        ("session", session),
        ("today", _cost(answer.get("today"))),
        ("block", _cost(answer.get("block"))),
    ]
    parts = [f"{name} ${cost:.2f}" for name, cost in costs if cost is not None]
    if parts and costs[-1][1] is not None:
        parts[-1] += _remaining(_number(_object(answer.get("block")).get("endsAtSeconds")), now)
    return " · ".join([model] * bool(model) + parts) or "ash"


def _remaining(end: "float | None", now: float) -> str:
    minutes = 0 if end is None else int((end - now) // 60)
    return f" ({minutes // 60}h {minutes % 60:02d}m left)" if minutes > 0 else ""


def _cost(usage: object) -> "float | None":
    return _number(_object(usage).get("costUsd"))


def _object(value: object) -> "dict[str, Any]":
    return value if isinstance(value, dict) else {}


def _number(value: object) -> "float | None":
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    return float(value) if is_number and abs(value) < 1e12 else None  # type: ignore[arg-type]  # checked


def _text(value: object) -> str:
    """Return the printable characters of a text: names were written by other programs."""
    return "".join(filter(str.isprintable, value))[:100] if isinstance(value, str) else ""


def _decode(text: bytes) -> "dict[str, Any]":
    try:
        return _object(json.loads(text))
    except (ValueError, RecursionError):
        return {}


# The server. Names are looked up by the system without a timeout, so a thread asks, and the line waits for it.


def _ask_server(session: str, deadline: float) -> "dict[str, Any] | None":
    """Return the server's answer; empty if it gives none, and None if it is late."""
    from _queue import Empty, SimpleQueue
    from _thread import start_new_thread

    answers: SimpleQueue[dict[str, Any] | None] = SimpleQueue()
    start_new_thread(lambda: answers.put(_answer(session, deadline)), ())
    try:
        return answers.get(timeout=max(0.0, deadline - time.monotonic()))
    except Empty:
        return None


def _answer(session: str, deadline: float) -> "dict[str, Any] | None":
    """Return the server's answer; empty if it gives none, and None if it is late.

    Errors have no place in a status line.
    """
    try:
        return _decode(_get(session, deadline))
    except TimeoutError:
        return None
    except (OSError, ValueError):
        return {}


def _get(session: str, deadline: float) -> bytes:
    """Return the body of the answer. Raises OSError, ValueError."""
    url = _url()
    scheme, _, rest = url.partition("://")
    host, slash, prefix = rest.partition("/")
    address = _address(host, 443 if scheme == "https" else 80)
    day = time.localtime()
    midnight = int(time.mktime((*day[:3], 0, 0, 0, 0, 0, -1)))
    lines = [
        f"GET {slash}{prefix}{_PATH}?session={_percent_encoded(session)}&since={midnight} HTTP/1.0",
        f"Host: {host}",
        "Accept: application/json",
        *([f"Authorization: Bearer {key}"] if (key := _key(url)) else []),
    ]
    import socket

    with socket.create_connection(address, timeout=max(0.001, deadline - time.monotonic())) as connection:
        secured = _secured(connection, address[0]) if scheme == "https" else connection
        secured.sendall("\r\n".join([*lines, "", ""]).encode("ascii"))
        received = b""
        while len(received) <= MAX_ANSWER and (added := secured.recv(MAX_ANSWER)):
            received += added
    head, _, body = received.partition(b"\r\n\r\n")
    if head.split(b" ", 2)[1:2] != [b"200"]:
        raise ValueError(head[:100])
    return body


def _url() -> str:
    return (os.environ.get("ASH_URL") or f"http://127.0.0.1:{os.environ.get('ASH_PORT') or 4100}").rstrip("/")


def _address(host: str, default_port: int) -> tuple[str, int]:
    name, colon, port = host.rpartition(":")
    if not colon or port.endswith("]"):
        return host.strip("[]"), default_port
    return name.strip("[]"), int(port)


def _secured(connection: "Any", name: str) -> "Any":
    from ssl import create_default_context

    return create_default_context().wrap_socket(connection, server_hostname=name)


def _percent_encoded(text: str) -> str:
    return "".join(f"%{byte:02X}" for byte in text.encode("utf-8", "replace"))


def _key(url: str) -> "str | None":
    """Return ASH_KEY, else the key that `ash hooks install` saved for this server."""
    if key := os.environ.get("ASH_KEY"):
        return key
    key = _read_home("server-keys.json").get(url)
    return key if isinstance(key, str) else None


# The last answer, in ASH_HOME.


def keep(session: str, answer: "dict[str, Any]") -> None:
    """Keep an answer for lines that the server is too slow for."""
    kept = {"url": _url(), "session": session, "at": time.time(), "answer": answer}
    path = os.path.join(_home(), _FILE)
    temporary = f"{path}.{os.getpid()}"
    try:
        with open(
            os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="utf-8"
        ) as file:
            json.dump(kept, file)
        os.replace(temporary, path)
    except OSError:
        pass  # there is no such folder, or no space


def recall(session: str) -> "dict[str, Any]":
    """Return the last answer of this server about the session; empty if there is none, or if it is old."""
    kept = _read_home(_FILE)
    is_recent = 0 <= time.time() - (_number(kept.get("at")) or 0.0) <= MAX_AGE_SECONDS
    is_same = (kept.get("url"), kept.get("session")) == (_url(), session)
    return _object(kept.get("answer")) if is_recent and is_same else {}


def refresh(session: str) -> None:
    """Ask the server, and keep its answer."""
    answer = _answer(session, time.monotonic() + REFRESH_SECONDS)
    if answer:
        keep(session, answer)


def _start_refresh(session: str) -> None:
    """Run this file in the background. It ends by itself, and has no output."""
    nowhere = [(os.POSIX_SPAWN_OPEN, number, os.devnull, os.O_RDWR, 0) for number in range(3)]
    try:  # noqa: SIM105  # `contextlib` takes long to import
        os.posix_spawn(
            sys.executable, [sys.executable, "-I", __file__, session], os.environ, file_actions=nowhere
        )
    except OSError:
        pass  # the next line tries again


def _home() -> str:
    return os.environ.get("ASH_HOME") or os.path.expanduser("~/.ash")


def _read_home(name: str) -> "dict[str, Any]":
    """Return the content of a JSON file in ASH_HOME; empty if there is none."""
    try:
        with open(os.path.join(_home(), name), encoding="utf-8") as file:
            return _object(json.load(file))
    except (OSError, ValueError, RecursionError):
        return {}


if __name__ == "__main__":
    refresh(sys.argv[1])
