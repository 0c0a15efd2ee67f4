"""Every test has a home of its own, and nothing of the machine's settings."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import otolith
import pytest
from embedding_server import EmbeddingServer


@pytest.fixture(autouse=True)
def _own_world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in list(os.environ):
        if name.startswith(("OTOLITH_", "XDG_")):
            monkeypatch.delenv(name)
    world = tmp_path / "user"
    work = world / "work"
    work.mkdir(parents=True)
    monkeypatch.setenv("HOME", str(world))
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
