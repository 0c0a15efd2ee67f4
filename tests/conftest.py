"""Every test has a home of its own, and nothing of the machine's settings."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import otolith
import pytest
from embedding_server import EmbeddingServer


@pytest.fixture(autouse=True)
def _own_world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in list(os.environ):
        if name.startswith(("OTOLITH_", "XDG_", "HF_", "HUGGINGFACE_", "SENTENCE_TRANSFORMERS_", "OLLAMA_")):
            monkeypatch.delenv(name)
    world = tmp_path / "user"
    work = world / "work"
    work.mkdir(parents=True)
    monkeypatch.setenv("HOME", str(world))
    monkeypatch.setenv("FASTEMBED_CACHE_PATH", str(world / "fastembed"))
    monkeypatch.chdir(work)


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "home"


@pytest.fixture
def memory(home: Path) -> Iterator[otolith.Memory]:
    with otolith.Memory.open(home) as opened:
        yield opened


@pytest.fixture
def server() -> Iterator[EmbeddingServer]:
    with EmbeddingServer() as running:
        yield running


@pytest.fixture
def small(tmp_path: Path) -> Iterator[Path]:
    """A file system of one megabyte."""
    mounted = tmp_path / "small"
    mounted.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(mounted)]
    if os.geteuid() != 0 or subprocess.run(command, capture_output=True, check=False).returncode != 0:
        pytest.skip("mounting a small file system needs root")
    try:
        yield mounted
    finally:
        subprocess.run(["umount", "-l", str(mounted)], check=True)


HOLDER = """
import sys
from otolith import Memory
memory = Memory.open(sys.argv[1], embedder=None)
memory.remember("first")
print("ready", flush=True)
while True:
    memory.remember_many([f"held {n}" for n in range(2000)], batch=2000)
"""


def _readable(home: Path) -> bool:
    """Whether reading goes on: not where the holder was stopped within the header lock."""
    try:
        with otolith.Memory.open(home, read_only=True, config={"lock_timeout": 0.3}):
            return True
    except otolith.StoreLocked:
        return False


@pytest.fixture
def locked_home(home: Path) -> Iterator[tuple[Path, int]]:
    """A home whose write lock is held by a process that was stopped in the middle of a write."""
    with subprocess.Popen([sys.executable, "-c", HOLDER, home], stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "ready\n"
        try:
            for _ in range(200):
                time.sleep(0.05)
                os.kill(holder.pid, signal.SIGSTOP)
                time.sleep(0.05)
                if (home / "holder").read_text().startswith(f"held {holder.pid} ") and _readable(home):
                    break
                os.kill(holder.pid, signal.SIGCONT)
            else:
                pytest.fail("the holder never held the lock when it was stopped")
            yield home, holder.pid
        finally:
            holder.kill()
