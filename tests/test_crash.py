"""The short forms of `make crash`, and that the harness sees what it is there to see."""

from __future__ import annotations

import json
import math
import os
import random
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from crash.check import look_in_child
from crash.children import ask
from crash.content import EMBEDDER, as_fields, fields_of, is_right, vector_of, word
from crash.damage import KINDS, damaged
from crash.journal import Follower, Journal
from crash.model import Model, SharedKey
from crash.probe import Original, Probe
from crash.report import filled
from otolith import Memory

# Signals and deadlines: seconds on an idle machine, minutes on a busy one.
SECONDS = 280
pytestmark = [
    pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning"),
    pytest.mark.timeout(SECONDS + 20),
]
TESTS = Path(__file__).parent
ROOT = TESTS.parent


def crash(*arguments: str) -> dict[str, Any]:
    """The figures of a run in a process of its own: it forks, which a process with threads must not."""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-m", "crash", *arguments],
        cwd=TESTS,
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=SECONDS,
        check=False,
    )
    assert done.stdout, done.stderr
    figures: dict[str, Any] = json.loads(done.stdout)
    assert figures["ok"], json.dumps(figures["wrong"], indent=2) + done.stderr
    assert done.returncode == 0, done.stderr
    return figures


def test_a_hundred_kills_lose_nothing() -> None:
    figures = crash("kills", "--count", "100", "--seed", "3")
    assert figures["kills"] >= 100
    assert figures["acknowledged_operations"] > 20
    assert figures["in_flight_at_a_kill"] > 0
    assert figures["records_read"] > 100


def test_a_stopped_holder_is_named_and_reading_goes_on() -> None:
    figures = crash("stops", "--count", "2", "--terms", "15", "--seed", "3")
    assert figures["stops_in_the_lock"] == 2
    assert figures["refused_ms"]["n"] >= 4
    assert figures["reads_meanwhile_ms"]["n"] > 0
    assert figures["sigterm_default"] + figures["sigterm_handler"] == 15


def test_two_hundred_damaged_copies_give_the_right_answer_or_a_typed_error() -> None:
    size = ("--count", "203", "--records", "60")
    figures = crash("damage", *size, "--verify-touched", "0.1", "--verify-others", "0.02")
    kinds = figures["kinds"]
    assert set(kinds) == set(KINDS)
    assert sum(one["typed_error"] for one in kinds.values()) > 20
    assert sum(one["no_effect"] for one in kinds.values()) > 20


def test_three_seconds_of_soak_add_up() -> None:
    figures = crash("soak", "--minutes", "0.05", "--every", "1")
    assert len(figures["samples"]) >= 2
    assert figures["calls"] > 50
    assert figures["records"] > 10


# -- the harness itself: each of these would let a broken store pass if it did not hold ---------------------


def journalled(*lines: dict[str, Any]) -> list[dict[str, Any]]:
    return [{"t": float(at), **line} for at, line in enumerate(lines)]


def intent(n: int, what: str, after: dict[str, str | None]) -> dict[str, Any]:
    return {"is": "intent", "n": n, "what": what, "after": after}


def ack(n: int, **ids: str) -> dict[str, Any]:
    return {"is": "ack", "n": n, "ids": ids}


def test_the_model_wants_what_was_acknowledged_and_nothing_else() -> None:
    lines = journalled(intent(1, "many", {"a": "1", "b": "1"}), ack(1, a="ia", b="ib"))
    lines += journalled(intent(2, "forget", {"b": None}), ack(2))

    def after(found: dict[str, str | None]) -> list[str]:
        model = Model()
        model.apply("w", lines)
        model.settle("w", found, "here")
        return model.wrong

    assert after({"a": "1"}) == []
    assert "a is lost" in after({})[0]
    assert "b is 1" in after({"a": "1", "b": "1"})[0]
    assert "a is 2" in after({"a": "2"})[0]
    assert "c is 1" in after({"a": "1", "c": "1"})[0]


def test_the_model_wants_an_operation_in_flight_whole_or_not_at_all() -> None:
    def after(found: dict[str, str | None]) -> list[str]:
        model = Model()
        model.apply("w", journalled(intent(1, "many", {"a": "1", "b": "1"}), ack(1, a="ia", b="ib")))
        model.apply("w", journalled(intent(2, "many", {"a": "2", "c": "1"})))
        operation = model.died("w")
        assert operation is not None
        model.settle("w", found, "here")
        return model.wrong

    assert after({"a": "1", "b": "1"}) == []
    assert after({"a": "2", "b": "1", "c": "1"}) == []
    assert "half there" in after({"a": "2", "b": "1"})[0]
    assert "half there" in after({"a": "1", "b": "1", "c": "1"})[0]
    assert "b is lost" in after({"a": "1"})[0]


def test_a_refused_call_must_leave_nothing() -> None:
    model = Model()
    model.apply("w", journalled(intent(1, "remember", {"a": "1"}), {"is": "refused"}))
    assert model.died("w") is None
    model.settle("w", {"a": "1"}, "here")
    assert "a is 1" in model.wrong[0]


def test_a_shared_key_holds_a_write_that_no_later_one_followed() -> None:
    register = SharedKey([(0, 1, "old"), (2, 4, "one"), (3, 5, "other"), (3, math.inf, "unknown")])
    assert register.allowed() == {"one", "other", "unknown"}
    assert SharedKey([(0, math.inf, "unknown")]).allowed() == {"unknown", None}


def test_a_record_proves_itself() -> None:
    fields = fields_of("a", "1", key="k", tags=("x", "y"))
    assert is_right(fields)
    others = {"summary": "x", "body": "x", "key": "other", "working_dir": "/", "tags": []}
    for name, value in others.items():
        assert not is_right({**fields, name: value}), name
    assert not is_right({**fields, "metadata": {**fields["metadata"], "version": "2"}})
    assert len({word(f"name-{number}") for number in range(5000)}) == 5000


def test_a_journal_survives_a_torn_line(tmp_path: Path) -> None:
    path = tmp_path / "log"
    follower = Follower(path)
    assert follower.new() == []
    Journal(path).note(**{"is": "ack"}, n=1)
    with path.open("ab") as file:
        file.write(b'{"is": "ac')
    assert [line["n"] for line in follower.new()] == [1]
    assert follower.new() == []


@pytest.fixture
def kept(home: Path) -> Original:
    """A small store and what it holds."""
    with Memory.open(home, embedder=EMBEDDER) as memory:
        for number in range(6):
            name = f"d-{number}"
            memory.remember(
                **fields_of(name, "first", key=name, given=True), actor="w0", vector=vector_of(name, "first")
            )
        records = {episode.id: as_fields(episode) for episode in memory.episodes()}
        lines = [json.loads(line) for line in _export(memory)]
    vectors = {line["id"]: line["vectors"] for line in lines if "summary" in line}
    return Original(home, ((home / "episodes.redb").read_bytes(),), records, vectors)


def _export(memory: Memory) -> list[bytes]:
    path = Path("export.jsonl")
    memory.export(path)
    return path.read_bytes().splitlines()


def probed(original: Original) -> dict[str, Any]:
    """The findings of a probe in this process."""
    said: list[dict[str, Any]] = []
    Probe(original, original.home, said.append).run()
    return said[-1]


def test_the_probe_is_content_with_what_was_written(kept: Original) -> None:
    findings = probed(kept)
    assert findings["step"] == "end"
    assert not any(findings[name] for name in ("wrong", "errors", "absent", "earlier", "told", "pending"))


def test_the_probe_sees_a_wrong_text_a_missing_record_and_another_vector(kept: Original) -> None:
    first, second, third = list(kept.records)[:3]
    with Memory.open(kept.home, embedder=EMBEDDER) as memory:
        memory.update(first, body="not what was written")
        memory.forget(second)
        memory.remember(
            **{name: value for name, value in kept.records[third].items() if value is not None},
            actor="w0",
            vector=vector_of("another", "vector"),
        )
    wrong = "\n".join(probed(kept)["wrong"])
    assert f"get: {first} is" in wrong
    assert "missing in silence" in wrong
    assert f"export: {third} has another vector" in wrong


def test_the_check_sees_what_a_store_must_not_hold(kept: Original) -> None:
    assert look_in_child(kept.home, [])["wrong"] == []
    first, second, third = list(kept.records)[:3]
    with Memory.open(kept.home, embedder=EMBEDDER) as memory:
        memory.update(first, body="not what was written")
        memory.remember(**{**fields_of("d-1", "first"), "key": None})
        memory.update(third, summary=f"{kept.records[third]['summary']} {word('d-3')}")
    wrong = "\n".join(look_in_child(kept.home, ["d-4"])["wrong"])
    assert f"wrong content: Episode(id='{first}'" in wrong
    assert "d-1 is there twice" in wrong
    assert "d-4 was forgotten and is recalled" in wrong
    assert second


def test_every_damage_changes_the_file() -> None:
    image = random.Random(1).randbytes(64 * 4096)
    for kind in KINDS:
        places = set()
        for number in range(50):
            new, at = damaged(image, kind, random.Random(number))
            assert new != image
            assert new[:at] == image[:at]
            places.add(at < 4096)
        assert places == ({False} if kind == "appended" else {False, True}), kind


def test_a_child_that_hangs_or_aborts_is_told_apart() -> None:
    assert ask("hangs", lambda say: signal.pause(), 0.2) == (-signal.SIGKILL, [])
    assert ask("aborts", lambda say: os.abort(), 20) == (-signal.SIGABRT, [])
    code, said = ask("speaks", lambda say: say({"n": 1}), 20)
    assert (code, said) == (0, [{"n": 1}])


def test_figures_of_a_run_that_found_something_are_not_published() -> None:
    page = "before\n<!-- figures: kills -->\nold\n<!-- end -->\nafter\n"
    with pytest.raises(ValueError, match="found something"):
        filled(page, {"run": "kills", "ok": False, "wrong": ["a record is lost"]})
    with pytest.raises(ValueError, match="no `<!-- figures: soak -->`"):
        filled(page, {"run": "soak", "ok": True, "wrong": []})


def test_the_page_has_a_place_for_every_run() -> None:
    page = (ROOT / "docs" / "reliability.md").read_text(encoding="utf-8")
    for run in ("kills", "stops", "damage", "soak"):
        assert page.count(f"<!-- figures: {run} -->\n") == 1, run
    assert page.count("<!-- end -->\n") == 4
