"""Remember, recall, forget, through the public API and real files."""

from __future__ import annotations

import contextlib
import os
import pickle
import subprocess
import sys
import threading
import time
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path

import pytest
from otolith import (
    Conflict,
    Filter,
    InvalidInput,
    Memory,
    NotFound,
    ReadOnly,
    StoreError,
)

EAST = timezone(timedelta(hours=8))
WHEN = datetime(2026, 4, 8, 23, 30, tzinfo=EAST)


def test_every_field_comes_back(memory: Memory, home: Path) -> None:
    given = {
        "body": "long text",
        "title": "Token fix",
        "outcome": "success",
        "source": "conversation",
        "actor": "Ann",
        "agent_id": "a1",
        "task_id": "t1",
        "session_id": "s1",
        "user_id": "u1",
        "working_dir": "/srv/app",
        "key_decisions": ("use env",),
        "files_modified": ("src/auth.rs",),
        "tags": ("auth", "密钥"),
        "metadata": {"n": 1, "f": 0.5, "b": True, "s": "x", "none": None},
        "scope": "team/app",
        "occurred_at": WHEN,
        "importance": 0.9,
        "origin": "tool",
        "trust": "untrusted",
    }
    before = datetime.now(UTC)
    written = memory.remember("The token had expired", key="k1", **given)
    read = memory.get(written.id)
    assert read == written
    for name, value in given.items():
        assert getattr(read, name) == value, name
    assert (read.summary, read.key, read.status) == ("The token had expired", "k1", "active")
    assert read.occurred_at.utcoffset() == timedelta(hours=8)
    assert before - timedelta(seconds=1) <= read.created_at <= datetime.now(UTC)
    assert read.created_at == read.updated_at


def test_defaults(memory: Memory) -> None:
    episode = memory.remember("x")
    assert (episode.source, episode.origin, episode.trust, episode.importance) == (
        "task",
        "assistant",
        "trusted",
        0.5,
    )
    assert (episode.body, episode.key, episode.tags, episode.metadata, episode.scope) == (
        None,
        None,
        (),
        {},
        "",
    )
    assert episode.occurred_at.utcoffset() == timedelta(0)


def test_the_same_key_replaces(memory: Memory) -> None:
    first = memory.remember("port 8080", key="port")
    second = memory.remember("port 9090", key="port")
    assert second.id == first.id
    assert len(memory) == 1
    assert memory.get(first.id).summary == "port 9090"
    assert not memory.recall("8080")
    assert memory.recall("9090")[0].id == first.id


def test_the_same_id_replaces(memory: Memory) -> None:
    first = memory.remember("old words")
    again = memory.remember("new text", id=first.id)
    assert again.id == first.id
    assert again.created_at == first.created_at
    assert [hit.text for hit in memory.recall("words text")] == ["new text"]


def test_keys_are_unique_within_their_scope_only(memory: Memory) -> None:
    one = memory.remember("in a", key="k", scope="a")
    other = memory.remember("in b", key="k", scope="b")
    assert one.id != other.id
    assert len(memory) == 2


def test_another_process_sees_it_at_once(memory: Memory, home: Path) -> None:
    memory.remember("written by the first process")
    code = (
        "import sys; from otolith import Memory\n"
        "with Memory.open(sys.argv[1]) as m:\n"
        "    print(m.recall('first process')[0].text)\n"
        "    m.remember('written by the second process')\n"
    )
    out = subprocess.run([sys.executable, "-c", code, str(home)], check=True, capture_output=True, text=True)
    assert out.stdout.strip() == "written by the first process"
    assert memory.recall("second")[0].text == "written by the second process"
    assert len(memory) == 2


def test_remember_many_takes_all_kinds_and_reports_the_wrong_ones(memory: Memory) -> None:
    kept = memory.remember("kept")
    calls: list[tuple[int, int | None]] = []
    report = memory.remember_many(
        [
            "a plain summary",
            {"summary": "with fields", "tags": ["x"], "key": "k"},
            kept.replace(summary="kept and changed"),
            {"summary": "  "},
            {"summary": "unknown", "colour": "red"},
            {"summary": "naive", "occurred_at": datetime(2026, 1, 1)},
            42,
            {"summary": "iso", "occurred_at": "2026-04-08T23:30:00+08:00"},
            {"summary": "bad id", "id": "not-ours"},
            {"summary": "with fields, again", "key": "k"},
        ],
        batch=3,
        progress=lambda done, total: calls.append((done, total)),
    )
    assert [place for place, _ in report.failed] == [3, 4, 5, 6, 8]
    assert all(isinstance(error, InvalidInput) for _, error in report.failed)
    assert [error.field for _, error in report.failed[:4]] == ["summary", "colour", "occurred_at", "episode"]
    assert (report.written, report.created, report.replaced) == (5, 3, 2)
    assert [one is None for one in report.ids] == [False, False, False] + [True] * 4 + [False, True, False]
    assert report.ids[1] == report.ids[9]
    assert memory.get(kept.id).summary == "kept and changed"
    assert calls == [(3, 10), (6, 10), (9, 10), (10, 10)]
    assert len(memory) == 4
    assert report.to_dict()["failed"][0][0] == 3


def test_remember_many_tells_what_was_there_already(memory: Memory) -> None:
    records = [{"summary": "a", "key": "a"}, {"summary": "b", "key": "b"}]
    assert memory.remember_many(records).unchanged == 0
    again = memory.remember_many([*records, {"summary": "c", "key": "b"}])
    assert (again.written, again.created, again.replaced, again.unchanged) == (3, 0, 1, 2)


def test_remember_many_takes_a_generator(memory: Memory) -> None:
    report = memory.remember_many((f"note {number}" for number in range(25)), batch=10)
    assert (report.written, len(memory)) == (25, 25)


def test_update_changes_and_empties(memory: Memory) -> None:
    first = memory.remember("x", title="old", tags=["a"])
    second = memory.update(first, title=None, tags=["b"], summary="y")
    assert (second.title, second.tags, second.summary) == (None, ("b",), "y")
    assert second.updated_at > first.updated_at
    assert second.created_at == first.created_at
    assert memory.recall("y")[0].id == first.id
    assert not memory.recall("old")


def test_update_with_expect_refuses_when_it_changed(memory: Memory) -> None:
    first = memory.remember("x")
    second = memory.update(first.id, expect=first.updated_at, summary="y")
    with pytest.raises(Conflict, match=first.id):
        memory.update(first.id, expect=first.updated_at, summary="z")
    assert memory.get(first.id).summary == "y"
    memory.update(first.id, expect=second.updated_at, summary="z")


def test_what_is_not_there_is_not_found(memory: Memory) -> None:
    gone = memory.remember("x")
    assert memory.forget(gone) == 1
    for call in (lambda: memory.get(gone.id), lambda: memory.update(gone.id, summary="y")):
        with pytest.raises(NotFound) as caught:
            call()
        assert caught.value.id == gone.id
    assert memory.forget(gone.id) == 0


def test_forget_takes_ids_episodes_and_hits(memory: Memory) -> None:
    one, two, three = (memory.remember(f"note {word}") for word in ("one", "two", "three"))
    hit = memory.recall("three")[0]
    assert memory.forget(one.id, two, hit) == 3
    assert len(memory) == 0
    assert not memory.recall("note")
    assert three.id not in memory.find(three.id[:8])


def test_forget_where_tells_then_does(memory: Memory) -> None:
    keep = memory.remember("keep", tags=["a"])
    gone = [memory.remember(f"go {n}", tags=["b"]).id for n in range(3)]
    told = memory.forget_where({"tags": ["b"]}, dry_run=True)
    assert (sorted(told.ids), told.count, told.dry_run) == (sorted(gone), 3, True)
    assert len(memory) == 4
    done = memory.forget_where(Filter(tags=("b",)))
    assert (sorted(done.ids), done.dry_run) == (sorted(gone), False)
    assert [one.id for one in memory.episodes()] == [keep.id]


@pytest.mark.parametrize("empty", [Filter(), {}, {"tags": None}])
def test_forget_where_refuses_an_empty_filter(memory: Memory, empty: Filter | dict[str, object]) -> None:
    memory.remember("x")
    with pytest.raises(InvalidInput, match="scope"):
        memory.forget_where(empty)
    assert len(memory) == 1
    assert memory.forget_where(Filter(scope="")).count == 1
    assert len(memory) == 0


def test_episodes_come_in_pages_in_both_orders(memory: Memory) -> None:
    ids = [one for one in memory.remember_many(f"note {n}" for n in range(700)).ids if one]
    assert [one.id for one in memory.episodes()] == ids[::-1]
    assert [one.id for one in memory.episodes(newest_first=False)] == ids
    assert [one.id for one in memory.episodes(after=ids[10], limit=300)] == ids[9::-1]
    assert [one.id for one in memory.episodes(newest_first=False, after=ids[9], limit=300)] == ids[10:310]
    assert list(memory.episodes(limit=0)) == []
    assert memory.count() == len(memory) == 700


def test_find_by_prefix(memory: Memory) -> None:
    one = memory.remember("x")
    assert memory.find(one.id) == [one.id]
    assert one.id in memory.find(one.id[:13])
    assert memory.find("ffffffff") == []


def test_recall_says_what_it_did(memory: Memory) -> None:
    memory.remember("The deploy failed because the token had expired", tags=["deploy"])
    memory.remember("Lunch was noodles")
    report = memory.recall("why did the deployment fail?", explain=True)
    hit = report[0]
    assert hit.text == "The deploy failed because the token had expired"
    assert 0 < hit.score <= 1
    assert hit.explanation is not None
    assert report.legs["lexical"].ran
    assert not report.legs["vector"].ran
    assert "embedder" in (report.legs["vector"].reason or "")
    assert report.considered == 2


def test_chinese_is_found(memory: Memory) -> None:
    memory.remember("部署失败是因为令牌已经过期")
    memory.remember("午饭吃的是面条")
    assert memory.recall("令牌过期了吗")[0].text == "部署失败是因为令牌已经过期"


def test_k_zero_and_k_beyond(memory: Memory) -> None:
    memory.remember_many(f"note number {n}" for n in range(5))
    assert len(memory.recall("note", 0)) == 0
    assert len(memory.recall("note", 1000)) == 5


def test_without_a_question_the_newest_come_first(memory: Memory) -> None:
    base = datetime(2026, 1, 1, tzinfo=UTC)
    for day in (2, 5, 1):
        memory.remember(f"day {day}", occurred_at=base + timedelta(days=day), tags=["x"])
    memory.remember("now")
    assert [hit.text for hit in memory.recall(k=2)] == ["now", "day 5"]
    found = memory.recall(filter={"tags": ["x"]})
    assert [hit.text for hit in found] == ["day 5", "day 2", "day 1"]
    assert not found.legs["lexical"].ran


def test_zero_hits_say_why(memory: Memory) -> None:
    memory.remember("something else")
    report = memory.recall("xylophone", filter={"tags": ["nope"]})
    assert not len(report)
    assert report.why_empty()


def test_recall_many_answers_in_order(memory: Memory) -> None:
    memory.remember_many(["apples are red", "the sky is blue"])
    reports = memory.recall_many(["sky", "apples"], 1)
    assert [report[0].text for report in reports] == ["the sky is blue", "apples are red"]


def test_filters(memory: Memory) -> None:
    base = datetime(2026, 1, 1, tzinfo=UTC)
    records = {
        "one": memory.remember("note one", tags=["a", "b"], session_id="s", scope="x", occurred_at=base),
        "two": memory.remember(
            "note two", tags=["a"], user_id="u", scope="x/y", occurred_at=base + timedelta(days=1)
        ),
        "three": memory.remember("note three", scope="xy", working_dir="/srv/app/sub", metadata={"n": 1}),
        "four": memory.remember("note four", working_dir="/srv/app", outcome="failure", origin="web"),
    }
    names = {episode.id: name for name, episode in records.items()}

    def found(**fields: object) -> set[str]:
        by_filter = {names[one.id] for one in memory.episodes(Filter(**fields))}  # type: ignore[arg-type]
        assert {names[hit.id] for hit in memory.recall("note", filter=fields)} == by_filter
        assert memory.count(fields) == len(by_filter)
        return by_filter

    assert found(tags=("a", "b")) == {"one"}
    assert found(tags="a") == {"one", "two"}
    assert found(scope="x") == {"one", "two"}
    assert found(scope="") == set(records)
    assert found(session_id="s") == {"one"}
    assert found(user_id="u") == {"two"}
    assert found(working_dir="/srv/app") == {"four"}
    assert found(working_dir="/srv/app", below=True) == {"three", "four"}
    assert found(metadata={"n": 1}) == {"three"}
    assert found(outcome="failure") == {"four"}
    assert found(trust="untrusted") == {"four"}
    assert found(until=base + timedelta(hours=1)) == {"one"}
    assert found(since=base + timedelta(hours=1), until=base + timedelta(days=2)) == {"two"}
    assert found(ids=(records["one"].id, records["two"].id)) == {"one", "two"}
    assert found(not_ids=(records["one"].id,)) == {"two", "three", "four"}
    assert found(kinds=("episode",)) == set(records)


def test_a_relative_directory_starts_at_the_current_one(
    memory: Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    Path("sub").mkdir()
    episode = memory.remember("x", working_dir="sub")
    assert episode.working_dir == os.path.abspath("sub")
    assert memory.remember("y", working_dir="~/p").working_dir == os.path.expanduser("~/p")
    monkeypatch.chdir("sub")
    assert memory.count(Filter(working_dir=".")) == 1


def test_a_scoped_handle_sees_only_its_scope(home: Path, memory: Memory) -> None:
    outside = memory.remember("secret of another team", scope="other")
    with Memory.open(home, scope="team") as team:
        inside = team.remember("note of the team")
        assert inside.scope == "team"
        assert len(team) == 1
        assert not team.recall("secret")
        with pytest.raises(NotFound):
            team.get(outside.id)
        with contextlib.suppress(NotFound):
            assert team.forget(outside.id) == 0
        assert team.forget_where(Filter(scope="")).count == 1
    assert memory.get(outside.id) == outside


def test_origin_of_the_handle_decides_trust(home: Path) -> None:
    with Memory.open(home, origin="web") as web:
        assert web.remember("from a page").trust == "untrusted"
    with Memory.open(home, origin="user") as user:
        assert user.remember("said").trust == "trusted"


def test_read_only_never_writes(home: Path, memory: Memory) -> None:
    memory.remember("x")
    with Memory.open(home, read_only=True) as reader:
        assert reader.recall("x")[0].text == "x"
        for write in (
            lambda: reader.remember("y"),
            lambda: reader.forget_where(Filter(scope="")),
            lambda: reader.remember_many(["y"]),
        ):
            with pytest.raises(ReadOnly, match="read-only"):
                write()
    assert len(memory) == 1


def test_a_home_that_is_not_there_is_not_made_unasked(home: Path) -> None:
    with pytest.raises(StoreError, match="home"):
        Memory.open(home, create=False)
    assert not home.exists()


def test_closing(home: Path) -> None:
    memory = Memory.open(home)
    memory.close()
    memory.close()
    with pytest.raises(StoreError, match="closed"):
        memory.remember("x")


def test_an_empty_memory_is_true(memory: Memory) -> None:
    assert memory
    assert len(memory) == 0
    assert "home" in repr(memory)


def test_many_threads_share_one_handle(memory: Memory) -> None:
    errors: list[BaseException] = []

    def work(name: int) -> None:
        try:
            for number in range(20):
                memory.remember(f"thread {name} note {number}", key=f"{name}-{number}")
                assert memory.recall(f"thread {name} note {number}", 1)
        except BaseException as error:  # noqa: BLE001
            errors.append(error)

    threads = [threading.Thread(target=work, args=(name,)) for name in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors
    assert len(memory) == 120


def test_status(home: Path, memory: Memory) -> None:
    memory.remember("x")
    status = memory.status()
    assert (status.home, status.records, status.read_only, status.scope) == (str(home), 1, False, "")
    assert status.embedder is None
    assert status.analyzer
    assert (status.file_bytes or 0) > 0
    plain = status.to_dict()
    assert plain["coverage"]["total"] == 1
    assert plain["notices"] == []


def test_the_default_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTOLITH_HOME", str(tmp_path / "elsewhere"))
    with Memory.open() as memory:
        memory.remember("x")
        assert memory.status().home == str(tmp_path / "elsewhere")
    assert (tmp_path / "elsewhere" / "episodes.redb").is_file()


def test_trust_is_raised_only_on_purpose(home: Path) -> None:
    with Memory.open(home, origin="web") as web, Memory.open(home) as own:
        id = web.remember("the deploy key rotates on Mondays").id
        assert own.get(id).trust == "untrusted"
        with pytest.raises(InvalidInput, match=r"Memory\.trust"):
            own.update(id, trust="trusted")
        assert own.trust(id).trust == "trusted"
        assert web.update(id, summary="the deploy key is printed in the log").trust == "untrusted"


def test_a_key_is_a_filter_too(memory: Memory) -> None:
    memory.remember("tabs", key="style")
    memory.remember("spaces")
    assert [e.summary for e in memory.episodes(Filter(key="style"))] == ["tabs"]
    assert memory.forget_where({"key": "style"}).count == 1


def test_blank_words_find_nothing_and_no_question_lists(memory: Memory) -> None:
    memory.remember("a note")
    assert len(memory.recall()) == 1
    report = memory.recall("  ")
    assert len(report) == 0
    assert "no words in the question" in report.why_empty()
    assert memory.recall("note", k=0).why_empty() == "No hits were asked for (k = 0)."


def test_words_are_taken_for_others_and_the_answer_says_for_which(tmp_path: Path) -> None:
    config = {"analyzer.synonyms": {"k8s": ["kubernetes"]}}
    with Memory.open(tmp_path / "home", embedder=None, config=config) as memory:
        memory.remember("Kubernetes authorization failed")
        memory.remember("the receiver was idle")
        report = memory.recall("k8s authoriz", explain=True)
        assert report[0].matched_terms == ("k8s → kubernetes", "authoriz → authorization")
        assert report.analysis.expansions == {"k8s": ("kubernetes",), "authoriz": ("authorization",)}
        assert report.analysis.highlight(report[0].text) == "**Kubernetes** **authorization** failed"
        assert report.analysis.to_dict()["expansions"]["k8s"] == ["kubernetes"]
        assert pickle.loads(pickle.dumps(report.analysis)) == report.analysis
        assert [hit.text for hit in memory.recall("reciever")] == ["the receiver was idle"]
        analyzer = report.analysis.analyzer.id
    with Memory.open(tmp_path / "home", embedder=None, config={"analyzer.expand": "off"}) as memory:
        assert not memory.recall("reciever authoriz k8s")
        assert memory.recall("receiver").analysis.analyzer.id == analyzer, "the index is the same"


@pytest.mark.parametrize("table", [{"two words": ["x"]}, {"ok": ["..."]}])
def test_a_synonym_that_cannot_be_is_refused_at_open(tmp_path: Path, table: dict[str, list[str]]) -> None:
    with pytest.raises(InvalidInput, match="synonyms"):
        Memory.open(tmp_path / "home", embedder=None, config={"analyzer.synonyms": table})
    assert not (tmp_path / "home").exists()


def test_words_of_other_scopes_stand_for_nothing(tmp_path: Path) -> None:
    with Memory.open(tmp_path / "home", embedder=None) as memory:
        for number in range(40):
            memory.remember(f"confi{'abcdefghij'[number % 10]}{'klmn'[number // 10]}", scope="alice")
            memory.remember("recieve the supersecretcodename", scope="alice")
        memory.remember("receive the configuration", scope="bob")
        for asked, expected in [("confi", "configuration"), ("recieve", "receive")]:
            report = memory.recall(asked, filter=Filter(scope="bob"))
            assert [hit.episode.scope for hit in report] == ["bob"]
            assert report.analysis.expansions == {asked: (expected,)}
    with Memory.open(tmp_path / "home", embedder=None, scope="bob") as bobs:
        assert [hit.episode.scope for hit in bobs.recall("recieve")] == ["bob"]
        assert bobs.recall("supersecre").analysis.expansions == {}


def test_an_answer_without_a_quoted_phrase_says_so(memory: Memory) -> None:
    memory.remember("the colour of the key")
    assert memory.recall('why "key colour"?').why_empty() == (
        'No record holds "key colour" as it stands in quotation marks. '
        "Without the marks its words are searched."
    )
    why = memory.recall('"key colour"', filter=Filter(tags=["none"])).why_empty()
    assert why.startswith("The filters left none of 1 record. Filters, each alone: tags leaves 0.")
    assert len(memory.recall('"colour of the key"')) == 1


def test_a_table_that_cannot_be_read_names_its_file(tmp_path: Path) -> None:
    home = tmp_path / "home"
    Memory.open(home, embedder=None).close()
    (home / "config.toml").write_text('[analyzer.synonyms]\n"a b" = ["c"]\n')
    with pytest.raises(InvalidInput, match=r"config\.toml:1: analyzer\.synonyms: .*not one word") as caught:
        Memory.open(home, embedder=None)
    assert caught.value.field == "analyzer.synonyms"


@pytest.mark.parametrize(
    "question",
    [
        ' "a' * 40_000,
        "“" * 40_000,
        " ".join(f'"w{n} x"' for n in range(20_000)),
        " ".join(f"word{n}" for n in range(20_000)),
    ],
    ids=["open marks", "curly marks", "phrases", "words"],
)
def test_a_question_of_many_words_takes_time_in_their_number(memory: Memory, question: str) -> None:
    memory.remember("note a")
    begin = time.perf_counter()
    memory.recall(question)
    assert time.perf_counter() - begin < 3, "hundredths of a second; seconds when it was quadratic"
