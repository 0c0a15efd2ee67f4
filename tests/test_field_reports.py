"""What went wrong with memories elsewhere: scores, Chinese, processes, growth, change of model, paths."""

from __future__ import annotations

import asyncio
import base64
import io
import json
import random
import subprocess
import sys
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta, timezone
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cli_process import Cli
from hypothesis import given, settings
from hypothesis import strategies as st
from otolith import AsyncMemory, Conflict, EmbedderError, Episode, Filter, HybridIndex, Memory, Report

DAY = datetime(2026, 1, 1, tzinfo=UTC)
WORDS = ["token", "deploy", "redis", "lock", "部署", "数据库", "连接池", "src/auth.rs", "v1.2.3", "ERR-4471"]


@pytest.fixture
def cli(tmp_path: Path) -> Cli:
    return Cli(tmp_path)


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


# -- ranking ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("embedder", [None, "hash:64"])
def test_scores_follow_how_often_a_word_occurs(home: Path, embedder: str | None) -> None:
    """Every keyword hit had the score 1.0, so the ranking was lost."""
    with Memory.open(home, embedder=embedder) as memory:
        for often in random.Random(1).sample(range(1, 21), 20):
            filler = [f"w{place}x" for place in range(20 - often)]
            memory.remember(" ".join(["zebra"] * often + filler), key=str(often))
        report = memory.recall("zebra", 20, legs=["lexical"])
        assert keys(report) == [str(often) for often in range(20, 0, -1)]
        scores = [hit.score for hit in report]
        assert all(more > less for more, less in pairwise(scores)), scores


@pytest.mark.parametrize("embed", ["now", "later"])
def test_an_exact_name_is_first_in_hybrid_mode_above_any_floor(home: Path, embed: Any) -> None:
    """Keyword hits weighed too little to pass the floor, so exact names could not be found."""
    with Memory.open(home, embedder="hash:256") as memory:
        memory.remember("The part is ZX-4471-B", key="part", embed=embed)
        memory.remember_many([f"Other note number {n} about part {n * 7}" for n in range(200)])
        for floor in (0.0, 0.35, 0.55):
            report = memory.recall("ZX-4471-B", 5, min_relevance=floor)
            assert keys(report)[:1] == ["part"], floor
            assert report.legs["vector"].ran
            assert report[0].score > 0.99


def test_a_rare_word_in_the_last_of_many_collections_is_found(home: Path) -> None:
    """With many collections a rare term found nothing: each was cut before they were merged."""
    with Memory.open(home, embedder="hash:32") as memory:
        common = [{"summary": f"a common deploy note {n}", "scope": f"s{n % 50}"} for n in range(1000)]
        memory.remember_many(common)
        memory.remember("a common quetzal deploy note", scope="s49", key="rare")
        assert keys(memory.recall("quetzal", 1)) == ["rare"]
        assert keys(memory.recall("common quetzal deploy note", 1)) == ["rare"]


def test_a_small_collection_fills_the_page_beside_a_large_one(home: Path) -> None:
    """The cut came before the filter, so three notes beside ten thousand were starved."""
    with Memory.open(home) as memory:
        large = np.random.default_rng(1).standard_normal((4000, 8)) * 0.1 + np.eye(8)[0]
        memory.remember_many(
            [{"summary": f"redis lock timeout {n}", "vector": row} for n, row in enumerate(large)]
        )
        few = {"scope": "b", "metadata": {"set": "b"}, "session_id": "b", "agent_id": "b", "tags": ["b"]}
        text = "some words about a lock and much else besides"
        memory.remember_many([{"summary": f"{text} {n}", "vector": np.eye(8)[1], **few} for n in range(3)])
        near = np.eye(8)[0]
        for field, value in few.items():
            for legs in (["lexical"], ["vector"], None):
                report = memory.recall(
                    "redis lock", 3, vector=near, legs=legs, filter=Filter(**{field: value})
                )
                assert len(report) == report.considered == 3, (field, legs)


def test_punctuation_hides_no_term(memory: Memory) -> None:
    """A comma in the question hid the words beside it."""
    memory.remember_many(["redis lock held", "redis only", "lock only", "a, list", "分布式锁，超时", "锁"])
    for written, plain in (
        ("redis, lock", "redis lock"),
        ("redis,lock!", "redis lock"),
        ("redis、lock", "redis lock"),
        ("分布式锁，超时", "分布式锁 超时"),
    ):
        assert bits(memory.recall(written)) == bits(memory.recall(plain)) != [], written


def test_the_word_itself_beats_words_that_begin_with_it(memory: Memory) -> None:
    """A row of longer words was ranked above the row that holds the word that was asked for."""
    memory.remember("redistool redisproxy rediscache redisserver")
    memory.remember("redis alpha beta gamma", key="redis")
    memory.remember("responsibility responsive responses respond")
    memory.remember("the response of the server was late", key="response")
    for word in ("redis", "response"):
        assert keys(memory.recall(word))[0] == word


def test_facts_that_look_alike_both_survive(memory: Memory) -> None:
    """Facts that differ in one short word were taken for the same and one was dropped."""
    pairs = [
        ("port is 8080", "port is 9090"),
        ("always use tabs", "never use tabs"),
        ("deploy to staging", "deploy to production"),
        ("we do use redis", "we do not use redis"),
    ]
    memory.remember_many([one for pair in pairs for one in pair])
    assert len(memory) == 8
    for pair in pairs:
        assert set(pair) <= {hit.text for hit in memory.recall(pair[0])}


def test_a_word_late_in_a_long_text_is_found(memory: Memory) -> None:
    """Text beyond the first thousands of characters could not be found."""
    for size in (50_000, 2_000_000):
        words = ["lorem", "ipsum", "dolor", "amet"] * (size // 23)
        for share, word in ((0.1, "early"), (0.5, "middle"), (0.99, "late")):
            words[int(len(words) * share)] = f"{word}{size}"
        memory.remember(" ".join(words), key=f"summary{size}")
        memory.remember("short", body=" ".join(words).replace(str(size), f"body{size}"), key=f"body{size}")
        for word in ("early", "middle", "late"):
            assert keys(memory.recall(f"{word}{size}"))[0] == f"summary{size}"
            assert keys(memory.recall(f"{word}body{size}"))[0] == f"body{size}"


def test_the_last_of_ten_thousand_in_a_session_is_found(memory: Memory) -> None:
    """After some hundred records a session took no more, silently."""
    rows = [{"summary": f"row {n}", "session_id": "s"} for n in range(10_000)]
    memory.remember_many([*rows, {"summary": "a zebra at last", "session_id": "s", "key": "last"}])
    assert keys(memory.recall("zebra", filter=Filter(session_id="s"))) == ["last"]


# -- Chinese, Japanese, Korean ----------------------------------------------------------------------------

NOTES = {
    "pool": "我们决定使用数据库连接池",
    "parser": "修复parser模块的bug",
    "cat": "猫在窗台上睡觉",
    "trip": "我在上海出差",
    "sun": "今天天气很好",
    "kana": "ひらがなとカタカナのテスト",
    "hangul": "한국어 데이터베이스 연결",
    "traditional": "資料庫連接池設定",
    "astral": "𠮷野家で𠀋を食べた",
}


@pytest.mark.parametrize(
    ("question", "first"),
    [
        ("数据库", "pool"),
        ("连接池", "pool"),
        ("决定", "pool"),
        ("上次我们讨论的数据库连接池大小是多少", "pool"),
        ("parser", "parser"),
        ("PARSER模块", "parser"),
        ("模块", "parser"),
        ("修复", "parser"),
        ("猫", "cat"),
        ("上海", "trip"),
        ("カタカナ", "kana"),
        ("ひらがな", "kana"),
        ("데이터베이스", "hangul"),
        ("資料庫", "traditional"),
        ("𠮷", "astral"),
        ("𠀋", "astral"),
    ],
)
def test_questions_without_spaces_find_their_note(memory: Memory, question: str, first: str) -> None:
    """Chinese found nothing, or every note, or only when all characters of a long question occurred."""
    for key, text in NOTES.items():
        memory.remember(text, key=key)
    found = keys(memory.recall(question))
    assert found[:1] == [first]
    assert len(found) < len(NOTES)


def test_characters_outside_the_basic_plane_come_back_whole(memory: Memory) -> None:
    """Text was cut in the middle of a surrogate pair and came back with replacement characters."""
    for text in (
        "𠮷野家",
        "👨‍👩‍👧‍👦👩🏽‍💻",
        "e\u0301a\u0308",
        "🇨🇳",
        "a\r\nb\rc\u2028d\x0c",
        "  both ends \n",
    ):
        for before in range(5):
            written = "x" * before + text
            assert memory.get(memory.remember(written).id).summary == written


# -- every door, every process ----------------------------------------------------------------------------


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


QUESTIONS = ["redis lock", "ERR-4471", "数据库连接池", "src/auth.rs token", "nothing of this"]


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


def test_a_handle_that_stays_open_is_in_nobodys_way(cli: Cli) -> None:
    """A process that watched kept the lock, so every other search failed."""
    code = (
        "import sys; from otolith import Memory\n"
        "memory = Memory.open(sys.argv[1], embedder=None); memory.remember('held open')\n"
        "print(len(memory), flush=True)\n"
        "for line in sys.stdin: print(len(memory), memory.recall(line)[0].text, flush=True)"
    )
    with python(code, str(cli.home)) as holder:
        assert holder.stdin is not None
        assert holder.stdout is not None
        try:
            assert holder.stdout.readline() == "1\n"
            assert "held open" in cli("recall", "held").out
            written = cli("remember", "from elsewhere").out.strip()
            for command in (["status"], ["list"], ["show", written]):
                cli(*command)
            holder.stdin.write("elsewhere\n")
            holder.stdin.flush()
            assert holder.stdout.readline() == "2 from elsewhere\n"
        finally:
            holder.kill()


def test_an_open_handle_never_shows_an_old_state(home: Path) -> None:
    """A process kept a stale view after another had changed or deleted what it knew."""
    handles = [Memory.open(home, embedder="hash:16") for _ in range(2)]
    writer, reader = handles
    with Memory.open(home, read_only=True) as watcher:
        for turn in range(10):
            one = writer.remember(f"stale view {turn}")
            assert one.id in {hit.id for hit in watcher.recall("stale view", 50)}
            reader.update(one.id, summary=f"changed {turn}")
            for memory in (writer, watcher):
                assert memory.get(one.id).summary == f"changed {turn}"
                assert not memory.recall("stale", legs=["lexical"])
                assert one.id in {hit.id for hit in memory.recall("changed", 50)}
        assert writer.forget(one.id) == 1
        assert one.id not in {hit.id for hit in reader.recall("changed", 50)}
    for memory in handles:
        memory.close()


def test_processes_that_start_at_once_on_no_home_lose_nothing(cli: Cli) -> None:
    """Parallel use ended in busy errors and lost notes."""
    code = (
        "import sys; from otolith import Memory\n"
        "memory = Memory.open(sys.argv[1], embedder=None)\n"
        "for n in range(50): memory.remember(f'process {sys.argv[2]} note {n}')"
    )
    running = [python(code, str(cli.home), str(number)) for number in range(6)]
    for process in running:
        assert process.communicate(timeout=60)[1] == ""
        assert process.returncode == 0
    with Memory.open(cli.home) as memory:
        assert len(memory) == len(memory.recall("process note", 1000)) == 300


def test_writers_killed_together_lose_nothing_they_acknowledged(home: Path) -> None:
    """Parallel writers that were killed left an index that crashed later."""
    code = (
        "import sys, itertools; from otolith import Memory\n"
        "memory = Memory.open(sys.argv[1], embedder='hash:16')\n"
        "for n in itertools.count():\n"
        "    print(memory.remember(f'kill {n}').id, flush=True)\n"
        "    if n % 5 == 4: memory.forget(memory.remember(f'gone {n}').id)"
    )
    acknowledged: set[str] = set()
    for turn in range(4):
        running = [python(code, str(home)) for _ in range(2)]
        for process in running:
            assert process.stdout is not None
            for _ in range(10 * turn + 3):
                acknowledged.add(process.stdout.readline().strip())
        for process in running:
            process.kill()
        for process in running:
            with process:
                assert process.stdout is not None
                lines = process.stdout.read().splitlines(keepends=True)
            acknowledged |= {line.strip() for line in lines if line.endswith("\n")}
        with Memory.open(home, embedder="hash:16") as memory:
            there = {one.id for one in memory.episodes()}
            assert acknowledged <= there
            memory.embed_pending()
            assert memory.coverage().ratio() == 1.0
            assert {hit.id for hit in memory.recall("kill gone", 10_000)} == there
            assert memory.status().unreadable == 0


def test_sixteen_threads_write_and_ask_on_one_hybrid_handle(home: Path) -> None:
    """The store said it was locked when threads shared it."""
    with Memory.open(home, embedder="hash:16") as memory:

        def work(number: int) -> None:
            for turn in range(15):
                one = memory.remember(f"thread {number} note {turn}")
                assert one.id in {hit.id for hit in memory.recall(f"thread {number} note {turn}", 300)}

        with ThreadPoolExecutor(16) as pool:
            list(pool.map(work, range(16)))
        assert len(memory) == memory.coverage().vectorized == 240


def test_each_failure_to_open_has_its_own_words(cli: Cli) -> None:
    """Every failure to open was called a lock, with the advice to delete the file."""
    cli("remember", "kept")
    file = cli.home / "episodes.redb"
    good = file.read_bytes()
    messages = {cli("recall", "kept", "--home", str(cli.root / "nowhere"), code=1).err}
    for damage in (b"no store at all" * 999, good[: len(good) // 2], good[:16] + b"\xff" * 90 + good[106:]):
        file.write_bytes(damage)
        answer = cli("recall", "kept", code=1)
        messages.add(answer.err)
        assert "Nothing was changed" in answer.err
        assert file.read_bytes() == damage
    assert len(messages) == 4
    assert not any(word in told for told in messages for word in ("locked", "delete", "remove"))
    file.write_bytes(good)
    assert "kept" in cli("recall", "kept").out


def test_flipped_bytes_never_become_wrong_text(home: Path) -> None:
    """A damaged file was served as if nothing had happened."""
    with Memory.open(home) as memory:
        ids = memory.remember_many([f"unique{n} of many" for n in range(40)]).ids
    texts = {id: f"unique{n} of many" for n, id in enumerate(ids)}
    file = home / "episodes.redb"
    good = file.read_bytes()
    code = (
        "import sys, json, otolith; texts = json.loads(sys.argv[2])\n"
        "for damaged in sys.argv[3:]:\n"
        "    open(sys.argv[1] + '/episodes.redb', 'wb').write(open(damaged, 'rb').read())\n"
        "    try:\n"
        "        with otolith.Memory.open(sys.argv[1]) as memory:\n"
        "            there = {one.id: one.summary for one in memory.episodes()}\n"
        "            hits = {hit.id: hit.text for hit in memory.recall('many', 99)}\n"
        "            missing = memory.status().unreadable\n"
        "    except otolith.OtolithError as error: continue\n"
        "    assert there.items() <= texts.items() and hits.items() <= texts.items()\n"
        "    assert len(there) + missing >= len(texts), (damaged, len(there), missing)"
    )
    draw = random.Random(5)
    filled = [place for place, byte in enumerate(good) if byte]
    paths = []
    for number in range(25):
        damaged = bytearray(good)
        damaged[draw.choice(filled)] ^= 1 << draw.randrange(8)
        paths.append(str(home.parent / f"damaged{number}"))
        Path(paths[-1]).write_bytes(damaged)
    process = python(code, str(home), json.dumps(texts), *paths)
    told = process.communicate(timeout=60)[1]
    assert process.returncode == 0, told


# -- growth, deletion, vectors ----------------------------------------------------------------------------


def test_vectors_are_those_of_the_records_that_are_there(home: Path) -> None:
    """Most vectors were orphans of records long deleted, and came back in answers."""
    with Memory.open(home, embedder="hash:32") as memory:
        for turn in range(6):
            memory.remember_many([{"summary": f"note {n} turn {turn}", "key": str(n)} for n in range(200)])
            memory.remember_many([{"summary": f"note {n} again {turn}", "key": str(n)} for n in range(200)])
            assert (len(memory), memory.coverage().vectorized) == (200, 200)
            if turn < 5:
                memory.forget_where(Filter(scope=""))
                assert memory.coverage().total == 0
        every = [hit.id for hit in memory.recall("note", 500)]
        gone, kept = every[:100], set(every[100:])
        assert memory.forget(*gone) == 100
        assert memory.coverage().vectorized == len(stored_rows(memory)) == 100
        for legs in (["lexical"], ["vector"], None):
            assert {hit.id for hit in memory.recall("note again", 500, legs=legs)} == kept
        assert len(memory.recall("note", 10)) == 10
        old = stored_rows(memory)
        back = memory.remember("a wholly other zebra", id=gone[0])
        assert memory.recall("wholly other zebra", 1, legs=["vector"])[0].id == back.id
        assert stored_rows(memory).items() > old.items()


def test_writing_a_key_again_leaves_nothing_of_the_old_text(home: Path) -> None:
    """A replaced text was still found until a restart, and its length was counted twice."""
    with Memory.open(home, embedder="hash:32") as memory:
        for text in ("alpha one", "beta two three", "gamma final"):
            memory.remember(text, key="k")
        with Memory.open(home) as again:
            for handle in (memory, again):
                for word in ("alpha", "two"):
                    assert not handle.recall(word, legs=["lexical"])
                assert [hit.text for hit in handle.recall("gamma")] == ["gamma final"]
    often, once = HybridIndex(), HybridIndex()
    for text in ("a b c", "d e f g h", "gamma x y"):
        often.insert("1", text)
    once.insert("1", "gamma x y")
    for index in (often, once):
        index.insert("2", "gamma z")
    assert often.search("gamma") == once.search("gamma")


@pytest.mark.parametrize("dim", [1, 3, 7, 1537])
def test_stored_vectors_keep_their_bits(home: Path, dim: int) -> None:
    """Vectors came back with the bytes of a shared buffer, wrong in length and content."""
    rows = np.random.default_rng(dim).standard_normal((60, dim))
    with Memory.open(home) as memory:
        odd = [rows[0].astype(np.float32)[::-1], np.asfortranarray(rows)[1], list(rows[2]), rows[3]]
        made = memory.remember_many([{"summary": "n", "vector": row} for row in [*odd, *rows[4:]]])
        assert (made.vectors_attached, made.vectors_refused) == (60, 0)
        before = stored_rows(memory)
    given = [rows[0][::-1], *rows[1:]]
    with Memory.open(home) as memory:
        assert stored_rows(memory) == before
        for id, row in zip(made.ids, given, strict=True):
            kept = np.frombuffer(before[str(id)], "<f4")
            np.testing.assert_allclose(kept, row / np.linalg.norm(row), atol=1e-6)
        out = io.BytesIO()
        memory.export(out)
    with Memory.open(home.parent / "copy") as copy:
        copy.import_(io.BytesIO(out.getvalue()))
        assert stored_rows(copy) == before


@pytest.mark.parametrize("dim", [8, 768, 1536, 4096])
def test_any_width_is_covered_without_a_setting(home: Path, dim: int) -> None:
    """Vectors of a width other than the built-in one were thrown away silently."""
    with Memory.open(home, embedder=Model(dim, f"model:{dim}")) as memory:
        memory.remember_many([f"note {n}" for n in range(5)])
        assert (memory.coverage().ratio(), memory.coverage().dim) == (1.0, dim)
        assert memory.recall("note 3", legs=["vector"]).legs["vector"].ran


@pytest.mark.parametrize("dim", [24, 32])
def test_another_model_loses_no_word_and_no_vector(home: Path, dim: int) -> None:
    """After a change of model the process did not start, or dropped what was written."""
    with Memory.open(home, embedder=Model(24, "old")) as memory:
        memory.remember_many([f"old note {n}" for n in range(10)])
    with Memory.open(home, embedder=Model(dim, "new")) as memory:
        report = memory.recall("old note", 50)
        assert len(report) == 10
        assert "old" in str(report.legs["vector"].reason)
        assert "new" in str(report.legs["vector"].reason)
        assert memory.remember_many([f"later note {n}" for n in range(10)]).written == 10
        assert len(memory.recall("later", 50)) == 10
        status = memory.status()
        assert dict(status.foreign_vectors) == {"old": 10}
        assert status.coverage.pending == 20
        assert any("old" in notice for notice in status.notices)
        with pytest.raises(EmbedderError):
            memory.embed_pending()
    with Memory.open(home, embedder=Model(24, "old")) as memory:
        assert memory.coverage().vectorized == 10
        assert memory.embed_pending().embedded == 10
        assert memory.recall("old note").legs["vector"].ran


def test_ten_thousand_documents_without_vectors_take_no_place() -> None:
    """A cap on vectors was used up by documents that had none."""
    index = HybridIndex(2)
    index.insert_many([str(n) for n in range(10_500)], [f"text {n}" for n in range(10_500)])
    assert index.add_embedding("10499", [1.0, 0.0])
    assert [hit.id for hit in index.search(None, [1.0, 0.0], 1)] == ["10499"]
    rows = np.random.default_rng(0).standard_normal((10_500, 2))
    assert all(index.add_embedding(str(n), row) for n, row in enumerate(rows))
    assert index.vector_coverage().vectorized == 10_500


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


# -- properties -------------------------------------------------------------------------------------------

CONDITIONS: dict[str, list[Any]] = {
    "kinds": [("episode",)],
    "scope": ["", "a", "a/b", "none"],
    "user_id": ["u1"],
    "agent_id": ["g2"],
    "session_id": ["s1"],
    "task_id": ["t2"],
    "working_dir": ["/w", "/w/a"],
    "tags": [("x",), ("x", "部署")],
    "outcome": ["blocked"],
    "source": ["document"],
    "actor": ["张三"],
    "origin": ["web"],
    "trust": ["trusted", "untrusted"],
    "status": ["active"],
    "since": [DAY + timedelta(hours=3)],
    "until": [DAY + timedelta(hours=6)],
    "metadata": [{"p": 1}, {"p": True}, {"p": None}, {"p": 2.5, "q": "u"}],
}


def holds(one: Episode, condition: dict[str, Any]) -> bool:
    """What the documentation says of each field, said again."""
    for field, wanted in condition.items():
        if field == "scope":
            fine = wanted == "" or one.scope == wanted or one.scope.startswith(wanted + "/")
        elif field == "working_dir":
            below = condition.get("below") and (one.working_dir or "").startswith(wanted + "/")
            fine = one.working_dir == wanted or bool(below)
        elif field == "tags":
            fine = set(wanted) <= set(one.tags)
        elif field == "since":
            fine = one.occurred_at >= wanted
        elif field == "until":
            fine = one.occurred_at < wanted
        elif field == "metadata":
            fine = all(
                name in one.metadata
                and one.metadata[name] == value
                and isinstance(one.metadata[name], bool) == isinstance(value, bool)
                for name, value in wanted.items()
            )
        elif field in ("ids", "not_ids"):
            fine = (one.id in wanted) == (field == "ids")
        elif field in ("kinds", "below"):
            fine = True
        else:
            fine = getattr(one, field) == wanted
        if not fine:
            return False
    return True


def raw(report: Iterable[Any], part: str) -> list[tuple[str, float]]:
    return [(hit.id, hit.parts[part]) for hit in report]


def test_filtering_before_ranking_is_ranking_before_filtering(tmp_path: Path) -> None:
    """A filter was applied after the cut, or changed the scores of what it left."""
    for seed in range(6):
        draw = random.Random(seed)
        with Memory.open(tmp_path / str(seed), embedder=None) as memory:
            records = sample(seed, 80)
            for number, record in enumerate(records):
                if draw.random() < 0.8:
                    record["vector"] = np.random.default_rng(number % 30).standard_normal(8)
            ids = [str(id) for id in memory.remember_many(records).ids]
            every = list(memory.episodes())
            question, vector = "redis lock 数据库", np.random.default_rng(seed).standard_normal(8)
            words = memory.recall(question, 1000, legs=["lexical"])
            near = memory.recall(None, 1000, vector=vector, legs=["vector"])
            conditions = [{field: value} for field, values in CONDITIONS.items() for value in values]
            conditions += [{"ids": tuple(ids[:9])}, {"not_ids": tuple(ids[::2])}]
            conditions += [{"working_dir": "/w", "below": True}]
            conditions += [{**draw.choice(conditions), **draw.choice(conditions)} for _ in range(8)]
            for condition in conditions:
                chosen = Filter(**condition)
                left = {one.id for one in every if holds(one, condition)}
                assert memory.count(chosen) == len(left), condition
                assert {one.id for one in memory.episodes(chosen)} == left
                some = memory.recall(question, 1000, legs=["lexical"], filter=chosen)
                assert raw(some, "bm25") == [hit for hit in raw(words, "bm25") if hit[0] in left], condition
                close = memory.recall(None, 1000, vector=vector, legs=["vector"], filter=chosen)
                assert raw(close, "cosine") == [hit for hit in raw(near, "cosine") if hit[0] in left], (
                    condition
                )
                both = bits(memory.recall(question, 1000, vector=vector, filter=chosen))
                assert {id for id, *_ in both} <= left
                for k in (1, 3, 10):
                    assert bits(memory.recall(question, k, vector=vector, filter=chosen)) == both[:k]


@pytest.mark.parametrize("fusion", ["weighted", "rrf"])
def test_equal_scores_are_ordered_by_time_then_id_at_every_cut(memory: Memory, fusion: Any) -> None:
    """Equal scores came in another order on each run, and the cut dropped some at random."""
    draw = random.Random(3)
    rows = [DAY + timedelta(seconds=draw.randint(0, 3)) for _ in range(120)]
    memory.remember_many([{"summary": "same text", "occurred_at": at, "vector": [1.0, 0.0]} for at in rows])
    order = sorted(memory.episodes(), key=lambda one: (-one.occurred_at.timestamp(), one.id))
    wanted = [one.id for one in order]
    for query, vector in (("same", None), (None, [1.0, 0.0]), ("same text", [1.0, 0.0])):
        for k in (1, 2, 30, 119, 120):
            report = memory.recall(query, k, vector=vector, fusion=fusion)
            assert [hit.id for hit in report] == wanted[:k], (query, k)
            assert len({hit.score for hit in report}) == 1


STEPS = st.lists(
    st.tuples(st.sampled_from(["put", "key", "id", "update", "forget", "where"]), st.integers(0, 2**16)),
    min_size=1,
    max_size=25,
)


@settings(max_examples=12, deadline=None)
@given(steps=STEPS)
def test_any_history_with_vectors_answers_like_a_memory_built_afresh(
    steps: list[tuple[str, int]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    """The index was out of step with its records after updates and deletions."""
    home = tmp_path_factory.mktemp("history")
    handles = [Memory.open(home / "old", embedder=None) for _ in range(2)]
    for place, (action, seed) in enumerate(steps):
        memory = handles[place % 2]
        draw = random.Random(seed)
        ids = [one.id for one in memory.episodes()]
        record = sample(seed, 1)[0]
        row = np.random.default_rng(seed).standard_normal(4) if draw.random() < 0.6 else None
        try:
            if action == "where":
                memory.forget_where(Filter(user_id="u1"))
            elif action == "forget":
                memory.forget(*ids[:2])
            elif action == "update" and ids:
                memory.update(draw.choice(ids), summary=record["summary"], tags=["moved"])
            elif action == "id" and ids:
                memory.remember(vector=row, id=draw.choice(ids), **record)
            else:
                name = draw.choice("abc") if action == "key" else None
                memory.remember(vector=row, key=name, **record)
        except Conflict:
            assert action == "id"
    out = io.BytesIO()
    handles[0].export(out)
    with Memory.open(home / "new", embedder=None) as fresh, Memory.open(home / "old", embedder=None) as again:
        fresh.import_(io.BytesIO(out.getvalue()))
        vector = np.ones(4) if fresh.coverage().vectorized else None
        for question in QUESTIONS:
            answers = [
                bits(memory.recall(question, 50, vector=vector)) for memory in (fresh, again, *handles)
            ]
            assert answers[1:] == answers[:1] * 3
        assert fresh.coverage() == again.coverage() == handles[0].coverage() == handles[1].coverage()
    for memory in handles:
        memory.close()
