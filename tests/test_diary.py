"""The coding diary that ships with the examples: what a person sees first must be right."""

import json
import os
import subprocess
import sys
from pathlib import Path

import otolith
import pytest
from otolith.evaluation import SHIPPED

ROOT = Path(__file__).parent.parent
DIARY = SHIPPED["coding-agent-life"].folder
FIGURE = "R@5 over 20 questions, words only: 1.000"
MAPPING = {"summary": "content", "occurred_at": "timestamp", "session_id": "id"}


def questions() -> list[dict[str, object]]:
    loaded: list[dict[str, object]] = json.loads((DIARY / "queries.json").read_text(encoding="utf-8"))
    return loaded


def test_every_gold_session_is_among_the_first_five_by_words_alone(memory: otolith.Memory) -> None:
    report = memory.import_(DIARY / "sessions.jsonl", format="jsonl", mapping=MAPPING)
    assert (report.created, report.failed) == (20, ())
    missed = {}
    for question in questions():
        gold = question["goldSessionIds"]
        assert isinstance(gold, list)
        found = [hit.episode.session_id for hit in memory.recall(str(question["question"]), k=5)]
        if not set(gold) <= set(found):
            missed[question["id"]] = (gold, found)
    assert missed == {}
    again = memory.import_(DIARY / "sessions.jsonl", format="jsonl", mapping=MAPPING)
    assert (again.created, len(memory)) == (0, 20)


def demo(**environment: str) -> str:
    done = subprocess.run(
        [sys.executable, str(ROOT / "examples" / "demo.py")],
        env=dict(os.environ) | environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        encoding="utf-8",
        timeout=100,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    return done.stdout


def test_the_demo_ends_with_its_figure() -> None:
    shown = demo()
    assert "No embedder is configured" in shown
    assert "OTOLITH_EMBEDDER_URL" in shown
    assert "BM25, sum of the matched terms" in shown
    assert shown.splitlines()[-1] == FIGURE
    assert len(shown.splitlines()) <= 100


def test_the_demo_shows_a_hybrid_answer_with_an_embedder() -> None:
    shown = demo(OTOLITH_EMBEDDER="hash:64")
    assert "vector ran (20, exact)" in shown
    assert "20 of 20" in shown


def test_the_demo_goes_on_when_the_server_is_down() -> None:
    shown = demo(OTOLITH_EMBEDDER="openai:m", OTOLITH_EMBEDDER_URL="http://127.0.0.1:9/v1")
    assert "cannot be reached" in shown
    assert "The embedder cannot be used now, so this goes on with words alone." in shown
    assert "Traceback" not in shown
    assert shown.splitlines()[-1] == FIGURE


@pytest.mark.parametrize("field", ["sessions.jsonl", "queries.json", "NOTICE"])
def test_the_data_ships_with_its_notice(field: str) -> None:
    assert (DIARY / field).stat().st_size > 100
