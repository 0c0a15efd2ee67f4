"""What went wrong with memories elsewhere: one door gave other answers than the next; paths, odd text."""

from __future__ import annotations

import asyncio
import base64
import io
import json
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path

import numpy as np
import pytest
from cli_process import Cli
from field_reports import DAY, QUESTIONS, Model, bits, sample
from otolith import AsyncMemory, Memory, Report


@pytest.fixture
def cli(tmp_path: Path) -> Cli:
    return Cli(tmp_path)


def test_every_door_gives_the_same_hits_to_the_bit(cli: Cli) -> None:
    """A second way to search gave other hits, or none, for the same question."""
    with Memory.open(cli.home, embedder="hash:48") as memory:
        memory.remember_many(sample(1, 300))
        wanted = [bits(memory.recall(question, 25)) for question in QUESTIONS]
        assert [bits(report) for report in memory.recall_many(QUESTIONS, 25)] == wanted
        for question, answer in zip(QUESTIONS, wanted, strict=True):
            for k in (1, 7):
                assert bits(memory.recall(question, k, explain=True)) == answer[:k]
        moved = io.BytesIO()
        memory.export(moved)

    async def ask() -> list[Report]:
        async with AsyncMemory.open(cli.home) as other:
            return [await other.recall(question, 25) for question in QUESTIONS]

    assert [bits(report) for report in asyncio.run(ask())] == wanted
    for question, answer in zip(QUESTIONS, wanted, strict=True):
        told = cli("recall", question, "-k", "25", "--json", env={"OTOLITH_EMBEDDER": "hash:48"}).json["hits"]
        assert [(hit["id"], hit["score"].hex(), hit["relevance"].hex()) for hit in told] == answer
    with Memory.open(cli.root / "copy", embedder="hash:48") as copy:
        copy.import_(io.BytesIO(moved.getvalue()))
        assert [bits(report) for report in copy.recall_many(QUESTIONS, 25)] == wanted


def test_every_filter_option_limits_every_command(cli: Cli) -> None:
    """One of the ways to search took a filter and dropped it."""
    with Memory.open(cli.home, embedder=None) as memory:
        one = memory.remember(
            "a note",
            scope="a",
            session_id="s",
            agent_id="g",
            task_id="t",
            user_id="u",
            working_dir="/w",
            tags=["x"],
            outcome="success",
            source="document",
            actor="Ann",
            origin="web",
            metadata={"k": 1},
            occurred_at=datetime(2026, 5, 1, tzinfo=UTC),
        )
        memory.remember_many([{"summary": "a note", "occurred_at": DAY}] * 3)
    options = {
        "scope=a": ["--scope", "a"],
        "session_id=s": ["--session", "s"],
        "agent_id=g": ["--agent", "g"],
        "task_id=t": ["--task", "t"],
        "user_id=u": ["--user", "u"],
        "working_dir=/w": ["--dir", "/", "--below"],
        "tags=x": ["--tag", "x"],
        "outcome=success": ["--outcome", "success"],
        "source=document": ["--source", "document"],
        "actor=Ann": ["--actor", "Ann"],
        "origin=web": ["--origin", "web"],
        "trust=untrusted": ["--trust", "untrusted"],
        "metadata.k=1": ["--meta", "k=1"],
        "since=2026-05-01T00:00:00Z": ["--since", "2026-05-01T00:00:00Z"],
    }
    for where, option in options.items():
        assert [hit["id"] for hit in cli("recall", "note", *option, "--json").json["hits"]] == [one.id], (
            option
        )
        assert cli("list", *option, "--json").json["id"] == one.id
        assert cli("forget", "--where", where, "--dry-run", "--json").json["ids"] == [one.id], where


# -- time, paths, text ------------------------------------------------------------------------------------


@pytest.mark.parametrize(("zone", "hours"), [("Asia/Shanghai", 8), ("America/Los_Angeles", -7)])
def test_days_begin_where_the_machine_is_and_offsets_are_kept(cli: Cli, zone: str, hours: int) -> None:
    """Filters shifted by the zone, and evening notes fell into another day."""
    env = {"TZ": zone}
    here = timezone(timedelta(hours=hours))
    times = ["2026-05-10T00:30:00+08:00", "2026-05-09T23:30:00-07:00", "2026-05-10T00:00:00"]
    at = {}
    for time in times:
        moment = datetime.fromisoformat(time)
        moment = moment if moment.tzinfo else moment.replace(tzinfo=here)
        made = cli("remember", "an event", "--at", time, "--json", env=env).json
        shown = cli("show", made["id"], "--json", env=env).json["episodes"][0]
        at[made["id"]] = moment
        assert datetime.fromisoformat(shown["occurred_at"]).isoformat() == moment.isoformat()
    for since, until in (("2026-05-10", "2026-05-11"), ("2026-05-09", "2026-05-10")):
        first, last = (datetime.fromisoformat(day).replace(tzinfo=here) for day in (since, until))
        told = cli("recall", "event", "--since", since, "--until", until, "--json", env=env).json["hits"]
        assert {hit["id"] for hit in told} == {id for id, moment in at.items() if first <= moment < last}


def test_a_final_backslash_swallows_nothing(cli: Cli) -> None:
    """A backslash at the end of a path swallowed the options behind it, and all looked well."""
    cli("remember", "a note", "--dir", "C:\\notes\\", "--tag", "kept")
    assert cli("list", "--json").json["tags"] == ["kept"]
    assert len(cli("recall", "note", "--dir", "C:\\notes\\", "--json").json["hits"]) == 1
    assert "C:\\notes\\" in cli("import", "C:\\notes\\", "--format", "jsonl", code=1).err


@pytest.mark.parametrize(
    "name", ["数据/日本語 é", "a b/c  d", "x" * 200 + "/" + "y" * 200, "line\nend", "~it", "%20"]
)
def test_a_home_may_have_any_path(cli: Cli, name: str) -> None:
    """A store was not found under a relative, long or foreign path, or another was made beside it."""
    cli("--home", f"./{name}", "remember", "a note about paths")
    assert "paths" in cli("--home", str(cli.cwd / name), "recall", "paths", cwd=cli.root).out
    with Memory.open(cli.cwd / name, create=False) as memory:
        assert len(memory) == 1


@pytest.mark.parametrize("unit", ["👩🏽‍💻", "👨‍👩‍👧‍👦", "𠮷", "e\u0301", "🇨🇳", "한", "क्षि"])
def test_text_is_cut_between_characters_only(cli: Cli, unit: str) -> None:
    """A chunk ended in the middle of a character, which came back as a replacement character."""
    seen: list[str] = []

    class Reader(Model):
        def embed_documents(self, texts: list[str]) -> np.ndarray:
            seen.extend(texts)
            return super().embed_documents(texts)

    written = ["x" * shift + unit * 400 + " needle " + unit * 400 for shift in range(len(unit) + 1)]
    with Memory.open(cli.home, embedder=Reader(8, "reader")) as memory:
        memory.remember_many(written)
    assert len(seen) > len(written), "nothing was cut"
    for text in written:
        assert text[:300] in "".join(seen)
    assert "\ufffd" not in "".join(seen)
    for command in (["list"], ["recall", "needle", "--full"]):
        answer = cli(*command, env={"OTOLITH_EMBEDDER": "none"}).out
        assert "\ufffd" not in answer
        assert answer.count(unit * 400) == 2 * len(written), command


def test_giant_lines_stop_nothing(cli: Cli) -> None:
    """One line over the limit broke the embedder, and bytes that are no text ended the run."""
    lines = [
        json.dumps({"text": "x" * 5_000_000 + " needle"}).encode(),
        b'{"text": "caf\xe9"}',
        json.dumps({"text": base64.b64encode(bytes(range(256)) * 4000).decode() + " blob"}).encode(),
        json.dumps({"text": "字" * 300_000 + " glyph"}).encode(),
        b'{"text": "last"}',
    ]
    told = cli("import", "-", "--format", "jsonl", "--map", "summary=text", code=1, input=b"\n".join(lines))
    assert "stdin:2: " in told.err
    assert "4 new" in told.out + told.err
    with Memory.open(cli.home, embedder=None) as memory:
        for word in ("needle", "blob", "glyph", "last"):
            assert len(memory.recall(word)) == 1, word
        for question in ("a" * 200_000, "note " * 20_000, "数据库" * 20_000, '"', "-", "a AND (b", "\\", "*"):
            memory.recall(question)
