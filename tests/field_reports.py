"""What the tests of field reports share."""

from __future__ import annotations

import base64
import io
import json
import random
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
from otolith import Memory, Report

DAY = datetime(2026, 1, 1, tzinfo=UTC)
WORDS = ["token", "deploy", "redis", "lock", "部署", "数据库", "连接池", "src/auth.rs", "v1.2.3", "ERR-4471"]
QUESTIONS = [
    "redis lock",
    "ERR-4471",
    "数据库连接池",
    "src/auth.rs token",
    "tokne deplo",
    '"redis lock"',
    "nothing of this",
]


class Model:
    """An embedder of any width: the direction of a text depends on its letters only."""

    def __init__(self, dim: int, fingerprint: str) -> None:
        self.dim = dim
        self.fingerprint = fingerprint

    def embed_documents(self, texts: list[str]) -> np.ndarray:
        return np.stack([self.embed_query(text) for text in texts])

    def embed_query(self, text: str) -> np.ndarray:
        row = np.random.default_rng(list(text.encode())).standard_normal(self.dim).astype(np.float32)
        return row / np.linalg.norm(row)


def keys(report: Report) -> list[str | None]:
    return [hit.episode.key for hit in report]


def bits(report: Report) -> list[tuple[str, str, str]]:
    return [(hit.id, hit.score.hex(), hit.relevance.hex()) for hit in report]


def stored_rows(memory: Memory) -> dict[str, bytes]:
    """The vector of every record as an export has it."""
    out = io.BytesIO()
    memory.export(out)
    rows = {}
    for line in out.getvalue().splitlines()[1:-1]:
        record = json.loads(line)
        for vectors in record.get("vectors", ()):
            rows[record["id"]] = base64.b64decode(vectors["f32"])
    return rows


def python(code: str, *arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", code, *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def sample(seed: int, count: int) -> list[dict[str, Any]]:
    """Records with some of every field."""
    draw = random.Random(seed)
    choices: dict[str, list[Any]] = {
        "user_id": ["u1", "u2"],
        "agent_id": ["g1", "g2"],
        "session_id": ["s1", "s2"],
        "task_id": ["t1", "t2"],
        "working_dir": ["/w", "/w/a", "/w/ab", "/v"],
        "outcome": ["success", "failure", "blocked", "cancelled"],
        "source": ["task", "conversation", "document", "import"],
        "actor": ["Ann", "张三"],
        "origin": ["user", "tool", "web"],
        "scope": ["", "a", "a/b", "a/bc"],
        "tags": [["x"], ["x", "部署"], ["y"]],
        "title": ["token", "redis lock"],
        "metadata": [{"p": 1}, {"p": True}, {"p": 2.5, "q": "u"}, {"p": None}],
    }
    records = []
    for _ in range(count):
        record: dict[str, Any] = {
            "summary": " ".join(draw.choices(WORDS, k=draw.randint(1, 7))),
            "occurred_at": DAY + timedelta(hours=draw.randint(0, 9)),
        }
        record.update({name: draw.choice(some) for name, some in choices.items() if draw.random() < 0.7})
        records.append(record)
    return records
