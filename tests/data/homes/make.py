"""Makes the homes that tests/test_formats.py opens. Those that are there stay: a new format gets its own.

    python tests/data/homes/make.py format-N     a home as this version writes it, clean and after a crash
    python tests/data/homes/make.py strange      homes of versions that never were or are still to come

A store file is kept as `NAME.redb.xz`, what it holds as the export `expected.jsonl` beside it.
"""

from __future__ import annotations

import base64
import hashlib
import io
import json
import lzma
import os
import signal
import subprocess
import sys
import tempfile
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import numpy as np
from otolith import Filter, Memory

HERE = Path(__file__).parent
CHINA = timezone(timedelta(hours=8))
SETTINGS = "lock_timeout = 7\n"
# The width of vectors that a store cuts into several rows.
WIDE = 1024
# What this version does not know and must keep.
LATER = {"later_text": "字 of a later version", "later_list": [1, 2.5, None, {"deep": True}]}
# Commits one more record, then dies with the file open.
DIE = """
import os, signal, sys
from otolith import Memory
memory = Memory.open(sys.argv[1])
memory.remember("written just before the end", key="last")
os.kill(os.getpid(), signal.SIGKILL)
"""


def records() -> list[dict[str, Any]]:
    """Each field, each of its values, and text that is hard to keep."""
    every: list[dict[str, Any]] = [
        {
            "summary": "All fields at once: deploy failed with ERR-4471",
            "key": "all-fields",
            "body": 'A body\r\nwith lines,\ttabs, "quotes" and \u2028 what else',
            "title": "部署失败",
            "outcome": "failure",
            "source": "conversation",
            "actor": "张三",
            "agent_id": "agent-1",
            "task_id": "task-1",
            "session_id": "session-1",
            "user_id": "user-1",
            "working_dir": "/srv/app/api",
            "key_decisions": ["keep the pool small", "回滚"],
            "files_modified": ["src/auth.rs", "src/pool/mod.rs"],
            "tags": ["deploy", "标签"],
            "metadata": {"f": 0.1, "i": 2**53 + 1, "negative": -3, "none": None, "yes": True, "text": "ü"},
            "scope": "team/app",
            "occurred_at": datetime(2026, 4, 8, 23, 30, 0, 123456, tzinfo=CHINA),
            "importance": 0.875,
            "origin": "web",
        },
        {"summary": "👨‍👩‍👧‍👦 e\u0301 𠮷野家 🇨🇳", "working_dir": "/srv/app", "scope": "team"},
        {"summary": "  blanks at both ends \n", "working_dir": "C:\\notes\\"},
        {"summary": "the same key elsewhere", "key": "all-fields", "scope": "other"},
        {"summary": "lowered by its writer", "trust": "untrusted"},
        {"summary": "long " * 400, "title": "several chunks"},
    ]
    for outcome in ("success", "failure", "blocked", "cancelled"):
        every.append({"summary": f"a task that ended as {outcome}", "outcome": outcome})
    for source in ("task", "conversation", "document", "import"):
        every.append({"summary": f"a note from a {source}", "source": source})
    for origin in ("user", "assistant", "tool", "web", "import"):
        every.append({"summary": f"a note by {origin}", "origin": origin})
    return every + [{"summary": f"note number {n} about redis", "session_id": f"s{n % 3}"} for n in range(12)]


def fill(home: Path) -> None:
    """A home with something in every table, made through the public API."""
    with Memory.open(home, embedder="hash:16") as memory:
        memory.remember_many(records())
        memory.remember("a record with a vector of its own", vector=np.arange(16, dtype=np.float32))
        memory.remember("its vector is refused", vector=np.zeros(16, dtype=np.float32), key="refused")
        memory.remember("forgotten", key="gone", working_dir="/srv/gone")
        memory.remember("forgotten as well", tags=["gone"])
        memory.forget(next(memory.episodes(Filter(key="gone"))))
        memory.forget_where(Filter(tags=("gone",)))
        memory.update(next(memory.episodes(Filter(scope="other"))), title="changed later")
        memory.trust(next(memory.episodes(Filter(origin="tool"))))
        memory.remember("pending, for it has no vector yet", embed="later", key="pending")
        out = io.BytesIO()
        memory.export(out)
        memory.import_(io.BytesIO(with_more(out.getvalue())))
    (home / "config.toml").write_text(SETTINGS, encoding="utf-8")


def with_more(export: bytes) -> bytes:
    """The export with what no call makes: later fields, a second embedder, a held back record."""
    head, *lines, _, _ = export.decode("utf-8").split("\n")
    changed = [json.loads(head)]
    template = json.loads(lines[-1])
    for place, line in enumerate(map(json.loads, lines)):
        if place < 5:
            row = np.random.default_rng(place).standard_normal(WIDE).astype("<f4")
            row /= np.linalg.norm(row)
            one = {"embedder": "other:model", "dim": WIDE, "f32": base64.b64encode(row.tobytes()).decode()}
            line.setdefault("vectors", []).append(one)
        changed.append(line)
    template.pop("vectors", None)
    for place, (summary, more) in enumerate(
        [("held back", {"status": "quarantined", "key": "held"}), ("from a later version", LATER)]
    ):
        id = f"{template['id'][:-1]}{place}"
        changed.append({**template, "id": id, "summary": summary, "key": f"more-{place}", **more})
    changed[0]["records"] = len(changed) - 1
    body = "".join(json.dumps(one, ensure_ascii=False) + "\n" for one in changed).encode("utf-8")
    end = {"otolith": "end", "records": len(changed) - 1, "sha256": hashlib.sha256(body).hexdigest()}
    return body + json.dumps(end).encode() + b"\n"


def keep(store: Path, name: Path) -> None:
    """The store file, compressed."""
    name.write_bytes(lzma.compress(store.read_bytes(), preset=9))


def make_format(target: Path) -> None:
    """A home of this version."""
    target.mkdir(exist_ok=False)
    with tempfile.TemporaryDirectory() as place:
        home = Path(place) / "home"
        fill(home)
        with Memory.open(home, read_only=True) as memory:
            memory.export(target / "expected.jsonl")
            rows = sorted(memory.status().foreign_vectors)
        assert rows, "the second embedder is there"
        keep(home / "episodes.redb", target / "clean.redb.xz")
        (target / "config.toml").write_bytes((home / "config.toml").read_bytes())
        done = subprocess.run([sys.executable, "-c", DIE, str(home)], check=False)
        assert done.returncode == -signal.SIGKILL
        keep(home / "episodes.redb", target / "killed.redb.xz")


def make_strange(target: Path) -> None:
    """Homes that the public API does not write; a test of the engine does."""
    target.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as place:
        command = "cargo test --locked -p otolith-core --lib make_strange_homes -- --ignored"
        subprocess.run(command.split(), check=True, env={**os.environ, "STRANGE_HOMES": place})
        for home in sorted(Path(place).iterdir()):
            if not (kept := target / f"{home.name}.redb.xz").exists():
                keep(home / "episodes.redb", kept)


if __name__ == "__main__":
    if sys.argv[1] == "strange":
        make_strange(HERE / "strange")
    else:
        make_format(HERE / sys.argv[1])
