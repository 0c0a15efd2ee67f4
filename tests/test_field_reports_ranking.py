"""What went wrong with memories elsewhere: scores, filters, Chinese."""

from __future__ import annotations

import random
from collections.abc import Iterable
from datetime import timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from field_reports import DAY, bits, keys, sample
from otolith import Episode, Filter, Memory


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
        few: dict[str, Any] = {"scope": "b", "metadata": {"set": "b"}, "session_id": "b", "tags": ["b"]}
        few |= {"agent_id": "b", "source": "document"}
        text = "some words about a lock and much else besides"
        memory.remember_many([{"summary": f"{text} {n}", "vector": np.eye(8)[1], **few} for n in range(3)])
        near = np.eye(8)[0]
        for field, value in few.items():
            for legs in (["lexical"], ["vector"], None):
                report = memory.recall(
                    "redis lock", 3, vector=near, legs=legs, filter=Filter(**{field: value})
                )
                assert len(report) == report.considered == 3, (field, legs)
            for question in ("wrods", "besi", '"about a lock"', 'beisdes "a lock"'):
                report = memory.recall(question, 3, legs=["lexical"], filter=Filter(**{field: value}))
                assert len(report) == 3, (field, question)


@pytest.mark.parametrize("beside", ["many words that begin with it", "one record that is misspelt as well"])
def test_other_collections_do_not_choose_what_a_word_stands_for(memory: Memory, beside: str) -> None:
    """The cut came before the filter, so a small collection beside a large one found nothing."""
    memory.remember_many([{"summary": f"the configuration of part {n}", "scope": "b"} for n in range(3)])
    here = Filter(scope="b")
    for question in ("confi", "configuratoin"):
        assert len(memory.recall(question, filter=here)) == 3
    if beside.startswith("many"):
        words = [f"confi{one}{other}" for one in "abcdefg" for other in "abcdefg"]
        memory.remember_many([{"summary": word, "scope": "a"} for word in words * 4])
    else:
        memory.remember("configuratoin confi", scope="a")
    for question in ("confi", "configuratoin"):
        assert len(memory.recall(question, filter=here)) == 3, question


def test_a_handle_with_a_scope_is_told_no_words_of_other_scopes(home: Path) -> None:
    """A search told what was in the collections of others."""
    with Memory.open(home, scope="others") as memory:
        memory.remember("quetzalcoatl is the name of the project")
    with Memory.open(home, scope="mine") as memory:
        memory.remember("a note")
        for question in ("quetz", "quetzalcoatk"):
            report = memory.recall(question)
            assert len(report) == 0
            assert report.analysis.expansions == {}, question


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


@pytest.mark.parametrize("beside", [0, 1500])
def test_a_code_and_a_word_are_not_taken_for_their_neighbours(memory: Memory, beside: int) -> None:
    """A code brought the next code first, and a word the one that shares its stem."""
    memory.remember_many([f"filler note {n}" for n in range(beside)])
    memory.remember("ERR-4472 again, then ERR-4472", key="next")
    memory.remember("ERR-44710 ERR-44710", key="longer")
    memory.remember("after a long day we saw ERR-4471 in the log of the server", key="code")
    memory.remember("a book and its author", key="author")
    memory.remember("the authorization of a request was refused by the proxy in front", key="authorization")
    for written in ("ERR-4471", "err-4471", "what about ERR-4471?"):
        report = memory.recall(written)
        assert keys(report)[0] == "code", written
        assert report.analysis.expansions == {}
    for word in ("author", "authorization"):
        assert keys(memory.recall(word))[0] == word
    for misspelt in ("authorizatoin", "authorisation", "authoriza"):
        assert keys(memory.recall(misspelt)) == ["authorization"], misspelt
    memory.forget_where(Filter(key="code"))
    for hit in memory.recall("ERR-4471"):
        assert hit.matched_terms == ("ERR",)


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


def test_one_character_finds_its_notes_in_an_index_on_disk(memory: Memory) -> None:
    """A single character found nothing, or every note."""
    memory.remember_many([f"第{n}次部署成功，服务器运行正常，上线 cats" for n in range(1500)])
    for key, text in NOTES.items():
        memory.remember(text, key=key)
    assert keys(memory.recall("猫", 2000)) == ["cat"]
    for question, first in (("上海", "trip"), ("𠮷", "astral"), ("数据库", "pool")):
        assert keys(memory.recall(question, 1))[:1] == [first]
    for text in ("猫", "𠮷", "数据库"):
        assert len(memory.recall(text, 2000)) < 10


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
            question = ("redis lock 数据库", "tokne deplo", '"redis lock" tokne 部署')[seed % 3]
            vector = np.random.default_rng(seed).standard_normal(8)
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
