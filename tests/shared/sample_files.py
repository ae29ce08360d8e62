"""Sample files: other programs' files, which are outside the repository, and recordings."""

import math
import os
from pathlib import Path
from typing import TypeVar

T = TypeVar("T")

CORPUS = Path(__file__).parents[3] / "shared" / "corpus"
CORPUS_NEXT = CORPUS.with_name("corpus-next")
RECORDINGS = Path(__file__).parents[1] / "recordings"
"""Runs of real programs with a scripted model, and the scripts that recorded them."""
NEXT_FOLDERS = (
    "aider_history",
    *("acp", "ag_ui"),
    *("crush_sqlite", "mistral_vibe", "zed_threads"),
    "otel_genai",
    *("goose_sqlite", "grok_build", "hermes", "kimi", "kiro_sqlite", "openclaw", "qwen_code"),
    *("antigravity_cli", "atif", "claude_code_2_1_2xx", "codex_rollout_0_14x", "copilot_cli"),
    *("droid", "openhands", "pydantic_ai", "opencode_export_2026", "opencode_sqlite", "opencode_v2_events"),
    *(
        "amp_thread",
        "vscode_copilot_chat",
        "chatgpt_export",
        "claude_ai_export",
        "cline_session",
        "cline_task",
    ),
)
"""The folders of newer samples with formats that are read."""
MAX_FILES = int(os.environ.get("ASH_TEST_FILES", "5"))
"""The number of files per format, which are much alike, in tests that take long for each."""
MAX_SMALL_BYTES = 250_000
"""The size of folders and files that `make test` reads completely."""
CLAUDE_FAMILY = ("agent_sdk_stream", "anthropic_api", "claude_code_jsonl", "claude_stream_json")


def sample_folders() -> list[Path]:
    """Return the folders of samples on this machine."""
    newer = (CORPUS_NEXT / name for name in NEXT_FOLDERS)
    recordings = sorted(path for path in RECORDINGS.glob("*/") if not path.name.startswith("_"))
    return [*sorted(CORPUS.glob("*/")), *(folder for folder in newer if folder.is_dir()), *recordings]


def is_small(folder: Path) -> bool:
    """Tell whether a test of all its files is fast."""
    return size_of(folder) < MAX_SMALL_BYTES


def size_of(path: Path) -> int:
    """Return the bytes of a file, or of all files of a folder."""
    return sum(each.stat().st_size for each in (path.rglob("*") if path.is_dir() else [path]))


def few_samples(folder: Path) -> list[Path]:
    """Return a few of the files of a folder, from small ones to large ones, without the largest."""
    sizes = sorted((size_of(path), path) for path in folder.iterdir())
    return spread([path for size, path in sizes if size < MAX_SMALL_BYTES])


def spread(values: list[T], number: int = MAX_FILES) -> list[T]:
    """Return at most this number of the values, with equal distances in their order."""
    return values[:: math.ceil(len(values) / number) or 1]
