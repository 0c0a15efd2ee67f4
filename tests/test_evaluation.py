"""Measuring recall: measures against values by hand, datasets of every format, runs, comparisons."""

import json
import math
from pathlib import Path
from typing import Any

import otolith
import pytest
from cli_process import Cli
from otolith import Filter, evaluation
from otolith.evaluation import Collection, Dataset, Question, Run
from otolith.evaluation.grep import Grep
from otolith.evaluation.measures import interval, judge, paired
from otolith.exceptions import EmbedderUnavailable, InvalidInput, NotFound, StoreError

RECORDS = [
    {"key": "pool", "summary": "the pool was exhausted by a leaked cursor", "tags": ["db"]},
    {"key": "cake", "summary": "we ate cake", "scope": "kitchen"},
    {"key": "port", "summary": "the proxy listens on port 8080"},
]


@pytest.fixture
def cli(tmp_path: Path) -> Cli:
    return Cli(tmp_path)


def dataset(*questions: Question, records: list[dict[str, Any]] | None = None, **more: Any) -> Dataset:
    collection = Collection(name="one", records=RECORDS if records is None else records, questions=questions)
    return Dataset(name="one", format="cases", collections=[collection], **more)


POOL = Question(id="q1", text="why was the pool exhausted?", relevant={"pool": 1.0})


def test_measures_are_those_by_hand() -> None:
    values = judge(["x", "a", "y", "b"], {"a": 1.0, "b": 3.0, "c": 1.0})
    assert (values["share@1"], values["share@5"], values["any@1"], values["any@5"]) == (0, 2 / 3, 0, 1)
    assert (values["all@20"], values["mrr"]) == (0, 0.5)
    gained = 1 / math.log2(3) + 3 / math.log2(5)
    assert values["ndcg@10"] == pytest.approx(gained / (3 + 1 / math.log2(3) + 1 / math.log2(4)))
    assert judge([], {"a": 1.0}) == dict.fromkeys(evaluation.MEASURES, 0.0)
    assert judge(["a"], {"a": 2.0}) == dict.fromkeys(evaluation.MEASURES, 1.0)
    # Two wanted records in one session, one in another.
    assert judge(["s", "t"], {"s": 1.0, "t": 1.0}, {"s": 2, "t": 1})["share@1"] == 2 / 3


def test_an_interval_holds_the_mean_and_draws_groups_whole() -> None:
    low, high = interval([[0.0] * 50 + [1.0] * 50])
    assert 0.3 < low < 0.5 < high < 0.7
    assert interval([[0.0] * 50, [1.0] * 50]) == (0.0, 1.0)
    assert interval([[0.5], [0.5], []]) == (0.5, 0.5)
    assert interval([]) == (0.0, 0.0)
    change, (low, high) = paired([[0.0, 0.5], [0.2]], [[0.5, 0.5], [0.7]])
    assert change == pytest.approx(1 / 3)
    assert low == pytest.approx(0.25)
    assert high == pytest.approx(0.5)


def test_a_known_hit_is_worth_one_and_legs_are_told() -> None:
    run = evaluation.evaluate(dataset(POOL), embedder=None)
    assert [row.name for row in run.rows] == ["grep", "lexical"]
    for row in run.rows:
        assert row.measures() == dict.fromkeys(evaluation.MEASURES, 1.0)
    lexical = run.row("lexical")
    assert lexical is not None
    assert lexical.legs() == {"lexical": 1}
    assert lexical.answers[0].found == ("pool",)
    assert run.settings["embedder"] is None
    assert run.settings["analyzer"]


def test_with_an_embedder_every_way_is_asked_and_all_vectors_are_there() -> None:
    run = evaluation.evaluate(dataset(POOL), embedder="hash:32")
    assert [row.name for row in run.rows] == list(evaluation.ROWS)
    hybrid = run.row("hybrid")
    assert hybrid is not None
    assert hybrid.legs() == {"lexical": 1, "vector": 1}
    assert "hash" in run.settings["embedder"]


def test_a_leg_that_does_not_run_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(EmbedderUnavailable, match="there is no embedder"):
        evaluation.evaluate(dataset(POOL), rows=["hybrid"], embedder=None)
    with otolith.Memory.open(tmp_path / "home", embedder="hash:8") as memory:
        memory.remember("the pool was exhausted", key="pool", embed="later")
    asked = Dataset(
        name="home", format="cases", collections=[Collection(name="home", records=None, questions=[POOL])]
    )
    with pytest.raises(EmbedderUnavailable, match="1 of 1 records have no vector"):
        evaluation.evaluate(asked, home=tmp_path / "home", embedder="hash:8")


def test_forbidden_hits_leak_and_questions_about_nothing_are_counted() -> None:
    questions = [
        Question(
            id="a", text="the pool and the proxy", relevant={"pool": 1.0}, forbidden=frozenset({"port"})
        ),
        Question(id="b", text="capital of Mongolia"),
        Question(id="c", text="cake", relevant={"cake": 1.0}, filter=Filter(scope="office")),
    ]
    row = evaluation.evaluate(dataset(*questions), rows=["lexical"], embedder=None).row("lexical")
    assert row is not None
    summary = row.summary()
    assert (summary["leaked"], summary["refused"], summary["no_answer"]) == (1, 1.0, 0.5)
    assert row.answers[0].leaked == ("port",)
    assert row.answers[2].found == ()
    assert row.measures()["share@10"] == 0.5


def test_cases_without_records_are_asked_of_the_home(tmp_path: Path) -> None:
    home = tmp_path / "home"
    with otolith.Memory.open(home, embedder=None) as memory:
        memory.remember_many(RECORDS)
        id = memory.remember("the gateway restarts at night").id
    cases = tmp_path / "mine.toml"
    cases.write_text(
        f'[[questions]]\nquery = "gateway"\nrelevant = ["{id}"]\n\n'
        '[[questions]]\nid = "p"\nquery = "exhausted pool"\nrelevant = { pool = 2 }\n'
        'filter = { tags = ["db"] }\n',
        encoding="utf-8",
    )
    loaded = evaluation.load(cases)
    assert (loaded.records, loaded.questions) == (None, 2)
    run = evaluation.evaluate(loaded, home=home, embedder=None)
    assert run.rows[1].measures()["mrr"] == 1.0
    assert run.rows[0].measures()["share@10"] == 0.5  # grep knows keys, and the first is named by its id
    unknown = Question(id="x", text="gateway", relevant={"nobody": 1.0})
    asked = Dataset(
        name="home", format="cases", collections=[Collection(name="h", records=None, questions=[unknown])]
    )
    with pytest.raises(InvalidInput, match="neither the id nor the key"):
        evaluation.evaluate(asked, home=home, embedder=None)
    with pytest.raises((NotFound, StoreError)):
        evaluation.evaluate(loaded, home=tmp_path / "nowhere", embedder=None)


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        (dataset(), "has no questions"),
        (dataset(POOL, records=[]), "has no records"),
        (dataset(POOL, POOL), "two questions are named q1"),
        (dataset(POOL, records=[RECORDS[0], RECORDS[0]]), "two records have the key pool"),
        (dataset(POOL, records=RECORDS[1:]), "names 'pool', which no record has"),
    ],
)
def test_a_dataset_that_cannot_be_measured_is_refused(asked: Dataset, message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        evaluation.evaluate(asked, embedder=None)


def test_bad_arguments_and_bad_records_are_named() -> None:
    with pytest.raises(InvalidInput, match="rows: 'words' is not one of grep"):
        evaluation.evaluate(dataset(POOL), rows=["words"])
    with pytest.raises(InvalidInput, match="rows: nothing"):
        evaluation.evaluate(dataset(POOL), rows=[])
    with pytest.raises(InvalidInput, match="k: must be 1"):
        evaluation.evaluate(dataset(POOL), k=0)
    with pytest.raises(InvalidInput, match="record cake of one"):
        evaluation.evaluate(
            dataset(POOL, records=[RECORDS[0], {"key": "cake", "summary": " "}]), embedder=None
        )


def test_a_run_comes_back_from_its_file_and_is_compared(tmp_path: Path) -> None:
    other = Question(id="q2", text="port", relevant={"port": 1.0, "cake": 1.0}, category="list")
    run = evaluation.evaluate(dataset(POOL, other), embedder=None)
    path = tmp_path / "run.json"
    run.write(path)
    again = Run.read(path)
    assert again.to_dict() == run.to_dict()
    assert json.loads(path.read_text(encoding="utf-8"))["schema"] == "otolith.eval.run/1"
    (grep, lexical) = evaluation.compare(run, again)
    assert (grep.row, lexical.row) == ("grep", "lexical")
    assert lexical.measures["mrr"]["change"] == 0.0
    assert lexical.wins == lexical.losses == []
    changed = json.loads(path.read_text(encoding="utf-8"))
    changed["rows"][1]["answers"][1]["values"]["share@10"] = 1.0
    path.write_text(json.dumps(changed), encoding="utf-8")
    better = evaluation.compare(run, Run.read(path))[1]
    assert [(one.question, one.before, one.after) for one in better.wins] == [("q2", 0.5, 1.0)]
    assert better.measures["share@10"]["change"] == pytest.approx(0.25)


def test_unlike_runs_are_not_compared(tmp_path: Path) -> None:
    run = evaluation.evaluate(dataset(POOL), embedder=None, rows=["lexical"])
    other = evaluation.evaluate(dataset(POOL, records=RECORDS[:1]), embedder=None, rows=["lexical"])
    with pytest.raises(InvalidInput, match="another dataset"):
        evaluation.compare(run, other)
    with pytest.raises(InvalidInput, match="another number of hits"):
        evaluation.compare(run, evaluation.evaluate(dataset(POOL), embedder=None, rows=["lexical"], k=5))
    with pytest.raises(InvalidInput, match="share no row"):
        evaluation.compare(run, evaluation.evaluate(dataset(POOL), embedder=None, rows=["grep"]))
    with pytest.raises(InvalidInput, match="by: 'luck'"):
        evaluation.compare(run, run, by="luck")
    for content in ("[]", "{}", '{"schema": "otolith.eval.run/9"}', "\x00", '{"schema": 1, "rows": 3}'):
        (tmp_path / "run.json").write_text(content)
        with pytest.raises(InvalidInput, match="run: "):
            Run.read(tmp_path / "run.json")
    with pytest.raises(InvalidInput, match="cannot be read"):
        Run.read(tmp_path / "none.json")


def test_memories_that_are_kept_are_not_embedded_again(tmp_path: Path) -> None:
    made: list[int] = []

    def embed(texts: list[str]) -> list[list[float]]:
        made.append(len(texts))
        return [[float(len(text)), 1.0] for text in texts]

    for _ in range(2):
        evaluation.evaluate(dataset(POOL), rows=["hybrid"], embedder=embed, work=tmp_path / "work")
    assert sum(count for count in made if count == 3) == 3, made


def test_sessions_are_ranked_by_their_three_best_hits() -> None:
    records = [
        {"key": f"{session}{place}", "summary": text, "session_id": session}
        for session, texts in {
            "s": ["deploy failed"] * 2,
            "t": ["the deploy failed for lack of a token"],
        }.items()
        for place, text in enumerate(texts)
    ]
    asked = Question(id="q", text="deploy failed", relevant={"s0": 1.0, "t0": 1.0})
    row = evaluation.evaluate(
        dataset(asked, records=records, sessions=True), rows=["lexical"], embedder=None
    ).rows[0]
    assert row.measures(sessions=True)["share@1"] == 0.5
    assert row.measures(sessions=True)["all@5"] == 1.0


def test_a_folder_in_the_layout_of_beir(tmp_path: Path) -> None:
    def lines(*rows: dict[str, str]) -> str:
        return "".join(json.dumps(row) + "\n" for row in rows)

    corpus = lines(
        {"_id": "d1", "title": "Pools", "text": "connection pools"},
        {"_id": "d2", "title": "Only a title", "text": ""},
        {"_id": "d3", "title": "", "text": ""},
    )
    (tmp_path / "corpus.jsonl").write_text(corpus)
    (tmp_path / "queries.jsonl").write_text(lines({"_id": "1", "text": "pools"}, {"_id": "2", "text": "x"}))
    (tmp_path / "qrels").mkdir()
    (tmp_path / "qrels" / "test.tsv").write_text("query-id\tcorpus-id\tscore\n1\td1\t2\n1\td2\t0\n2\td9\t1\n")
    loaded = evaluation.load(tmp_path)
    (collection,) = loaded.collections
    assert collection.records is not None
    assert [one["summary"] for one in collection.records] == ["connection pools", "Only a title"]
    assert [one.relevant for one in collection.questions] == [{"d1": 2.0}]
    assert sum(loaded.left_out.values()) == 3
    (tmp_path / "qrels" / "test.tsv").write_text("1 d1 1\n")
    with pytest.raises(InvalidInput, match=r"test.tsv:1 is not"):
        evaluation.load(tmp_path)
    (tmp_path / "queries.jsonl").write_text("{\n")
    with pytest.raises(InvalidInput, match="is not"):
        evaluation.load(tmp_path)


def test_evidence_of_locomo_is_repaired(tmp_path: Path) -> None:
    turns = [{"speaker": "Ada", "dia_id": f"D1:{place}", "text": f"turn {place}"} for place in range(1, 13)]
    conversation = {"session_1_date_time": "1:56 pm on 8 May, 2023", "session_1": turns}
    questions = [
        {"question": "a", "evidence": ["D1:3; D1:4", "D:1:5", "D1:06"], "category": 1},
        {"question": "b", "evidence": ["D9:1", "D"], "category": 3},
        {"question": "c", "evidence": ["D1:12"], "category": 5, "adversarial_answer": "x"},
    ]
    path = tmp_path / "talk.json"
    path.write_text(json.dumps([{"sample_id": "c1", "conversation": conversation, "qa": questions}]))
    loaded = evaluation.load(path)
    assert loaded.sessions
    assert loaded.left_out == {"questions without evidence": 1}
    first, second = loaded.collections[0].questions
    assert sorted(first.relevant) == [f"import:locomo:c1:D1:{turn}" for turn in (3, 4, 5, 6)]
    assert (first.category, second.category) == ("multi-hop", "adversarial")


def test_the_datasets_that_ship_are_read_and_have_their_notices() -> None:
    sizes = {}
    for name, one in evaluation.SHIPPED.items():
        assert one.licence.split("-")[0] in (one.folder / "NOTICE").read_text(encoding="utf-8").replace(
            "Apache License", "Apache"
        )
        loaded = evaluation.load(name)
        sizes[name] = (loaded.records, loaded.questions)
    assert sizes == {"coding-agent-life": (20, 20), "memorybank-zh": (566, 100)}


def test_what_words_alone_find_in_the_datasets_that_ship() -> None:
    diary = evaluation.evaluate(evaluation.load("coding-agent-life"), rows=["lexical"], embedder=None)
    assert diary.rows[0].measures()["share@5"] == 1.0
    chat = evaluation.evaluate(evaluation.load("memorybank-zh"), rows=["lexical"], embedder=None).rows[0]
    assert chat.measures()["share@5"] >= 0.85
    assert chat.measures()["mrr"] >= 0.69


YAML = """\
records:
  - key: 7
    summary: seven
    occurred_at: 2026-01-02T03:04:05Z
questions:
  - query: seven
    relevant: [7]
    scope: a/b
"""


def test_cases_in_yaml(tmp_path: Path) -> None:
    path = tmp_path / "cases.yaml"
    path.write_text(YAML)
    loaded = evaluation.load(path)
    (asked,) = loaded.collections[0].questions
    assert (asked.relevant, asked.filter) == ({"7": 1.0}, Filter(scope="a/b"))
    run = evaluation.evaluate(loaded, embedder=None)
    assert run.rows[1].answers[0].found == ()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("[", "is not JSON"),
        ("[]", "holds no `questions`"),
        ('{"questions": [], "more": 1}', "holds 'more'"),
        ('{"questions": 3}', "`questions` is no list"),
        ('{"questions": [3]}', "question 1 is no mapping"),
        ('{"questions": [{"query": " "}]}', "question 1 has no query"),
        ('{"questions": [{"query": "a", "gold": 1}]}', "question 1 has 'gold'"),
        ('{"questions": [{"query": "a", "relevant": 3}]}', "is no list of keys"),
        ('{"questions": [{"query": "a", "relevant": {"b": 0}}]}', "a gain is above 0"),
        ('{"questions": [{"query": "a", "filter": {"colour": "red"}}]}', "question 1: "),
        ('{"questions": [{"query": "a", "filter": 3}]}', "not a mapping"),
        ('{"questions": [{"query": "a"}], "records": [{"summary": "x"}]}', "record 1 has no key"),
        ('{"questions": [{"query": "a"}], "records": 3}', "`records` is no list"),
    ],
)
def test_cases_that_are_wrong_are_told(tmp_path: Path, content: str, message: str) -> None:
    path = tmp_path / "cases.json"
    path.write_text(content)
    with pytest.raises(InvalidInput, match=message):
        evaluation.load(path)


def test_what_is_no_dataset_is_told(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="those that ship are coding-agent-life, memorybank-zh"):
        evaluation.load("coding-agent-lief")
    with pytest.raises(InvalidInput, match="holds none of"):
        evaluation.load(tmp_path)
    (tmp_path / "a.txt").write_text("x")
    with pytest.raises(InvalidInput, match="ends with none of"):
        evaluation.load(tmp_path / "a.txt")
    (tmp_path / "b.yaml").write_bytes(b"\xff")
    with pytest.raises(InvalidInput, match="not UTF-8"):
        evaluation.load(tmp_path / "b.yaml")
    for name, content in (("c.yaml", "a: [b"), ("d.toml", "a = ")):
        (tmp_path / name).write_text(content)
        with pytest.raises(InvalidInput, match="is not "):
            evaluation.load(tmp_path / name)


def test_the_command_line_tells_rows_legs_and_changes(cli: Cli) -> None:
    assert [line.split()[0] for line in cli("eval", "list").out.splitlines()] == list(evaluation.SHIPPED)
    shown = cli("eval", "run", "coding-agent-life", "--embedder", "none", "-o", "run.json")
    head, grep, lexical = (line.split() for line in shown.out.splitlines())
    assert head[:3] == ["row", "share@1", "share@5"]
    assert (grep[0], lexical[0], lexical[2]) == ("grep", "lexical", "1.000")
    assert "20 questions in 20 records; k = 10" in shown.err
    assert "lexical: legs that ran: lexical for 20" in shown.err
    told = json.loads(cli("eval", "run", "coding-agent-life", "--row", "grep", "--json").out)
    assert told["schema"] == "otolith.eval.run/1"
    assert "answers" not in told["rows"][0]
    changes = cli("eval", "compare", "run.json", "run.json").out.splitlines()
    assert "lexical  share@5  1.000 -> 1.000  +0.000 (+0.000 to +0.000)" in changes
    rows = json.loads(cli("eval", "compare", "run.json", "run.json", "--json").out)["rows"]
    assert [row["row"] for row in rows] == ["grep", "lexical"]


def test_the_command_line_fails_with_the_next_step(cli: Cli) -> None:
    assert "those that ship are" in cli("eval", "run", "nothing", code=1).err
    refused = cli("eval", "run", "coding-agent-life", "--row", "hybrid", "--embedder", "none", code=1)
    assert "name one with --embedder" in refused.err
    assert "x.json cannot be read" in cli("eval", "compare", "x.json", "x.json", code=1).err
    assert "is not one of" in cli("eval", "run", "coding-agent-life", "--row", "all", code=2).err


def test_grep_counts_words_and_pairs_of_characters() -> None:
    grep = Grep(
        [{"key": "a", "summary": "Red blue"}, {"key": "b", "summary": "用户喜欢红色", "tags": ["blue"]}]
    )
    assert grep.find("BLUE red", 5) == ["a", "b"]
    assert grep.find("喜欢什么", 5) == ["b"]
    assert grep.find("green", 5) == []
    assert grep.find("blue", 1) == ["a"]
