"""Text analysis through the public API: the cases that the Rust tests read as well, and where words stand."""

from __future__ import annotations

import pickle
import tomllib
import unicodedata
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from otolith import Analyzer, HybridIndex, IndexParams, InvalidInput, Memory, config

CASES = tomllib.loads((Path(__file__).parent / "data" / "cases" / "text.toml").read_text(encoding="utf-8"))[
    "case"
]


def analyzer_of(case: dict[str, Any]) -> dict[str, Any]:
    return {"analyzer": case.get("analyzer", "default"), "language": case.get("language", "english")}


def test_there_are_two_hundred_cases_and_none_is_empty() -> None:
    assert len(CASES) >= 200
    assert all(case.get("has") or case.get("not") or "hits" in case or "marked" in case for case in CASES)


@pytest.mark.parametrize("case", [c for c in CASES if "text" in c], ids=lambda case: case["name"])
def test_analysis(case: dict[str, Any]) -> None:
    how = analyzer_of(case)
    terms = Analyzer(how["analyzer"], how["language"]).terms(case["text"])
    assert [term for term in case.get("has", []) if term not in terms] == []
    assert [term for term in case.get("not", []) if term in terms] == []


@pytest.mark.parametrize("case", [c for c in CASES if "hits" in c], ids=lambda case: case["name"])
def test_matches(case: dict[str, Any]) -> None:
    index = HybridIndex(params=IndexParams(**analyzer_of(case)))
    index.insert("a", case["doc"])
    assert bool(index.search(case["query"])) == case["hits"]


@pytest.mark.parametrize("case", [c for c in CASES if "marked" in c], ids=lambda case: case["name"])
def test_spans(case: dict[str, Any]) -> None:
    how = analyzer_of(case)
    text = case["marked"].replace("[", "").replace("]", "")
    marked, at = "", 0
    for start, end in Analyzer(how["analyzer"], how["language"]).spans(text, case["query"]):
        marked += f"{text[at:start]}[{text[start:end]}]"
        at = end
    assert marked + text[at:] == case["marked"]


def test_matches_are_those_of_a_memory(tmp_path: Path) -> None:
    """One home for each way of reading, all documents in it: a question finds its own or does not."""
    ways = {tuple(analyzer_of(case).items()) for case in CASES if "hits" in case}
    for way in ways:
        cases = [case for case in CASES if "hits" in case and tuple(analyzer_of(case).items()) == way]
        chosen = {f"analyzer.{name if name == 'language' else 'name'}": value for name, value in way}
        with Memory.open(tmp_path / "-".join(dict(way).values()), embedder=None, config=chosen) as memory:
            memory.remember_many(
                {"summary": case["doc"], "key": str(n), "occurred_at": "1999-01-01T00:00:00Z"}
                for n, case in enumerate(cases)
            )
            for n, case in enumerate(cases):
                found = {hit.episode.key for hit in memory.recall(case["query"], k=len(cases))}
                assert (str(n) in found) == case["hits"], case["name"]


def test_an_analyzer_is_a_value() -> None:
    one = Analyzer(language="german")
    assert (one.name, one.language) == ("default", "german")
    assert one == Analyzer("default", "german") != Analyzer()
    assert hash(one) == hash(Analyzer("default", "german"))
    assert pickle.loads(pickle.dumps(one)) == one
    assert repr(one) == "Analyzer(name='default', language='german')"
    assert one.id.startswith("default-german-")
    assert Analyzer("plain", "german") == Analyzer("plain")
    assert Analyzer("plain").language == "off"
    with pytest.raises(InvalidInput, match="analyzer"):
        Analyzer("fancy")
    with pytest.raises(InvalidInput, match="german"):
        Analyzer(language="German")
    with pytest.raises(InvalidInput, match="text"):
        one.spans(b"bytes", "query")  # type: ignore[arg-type]


def test_the_languages_of_the_setting_are_those_of_the_engine() -> None:
    for language in config.LANGUAGES:
        assert Analyzer(language=language).language == language
    with pytest.raises(InvalidInput) as refused:
        Analyzer(language="klingon")
    assert all(language in str(refused.value) for language in config.LANGUAGES)
    assert str(refused.value).count(",") == len(config.LANGUAGES) - 1


def test_the_setting_reaches_memory_and_its_answers(tmp_path: Path) -> None:
    chosen = {"analyzer.language": "german"}
    with Memory.open(tmp_path / "home", embedder=None, config=chosen) as memory:
        memory.remember("Die Häuser am Fluss")
        report = memory.recall("Haus")
        assert memory.status().analyzer == report.analysis.analyzer.id == Analyzer(language="german").id
        assert report.analysis.highlight(report[0].text) == "Die **Häuser** am Fluss"
        assert report.analysis.to_dict()["analyzer"] == report.analysis.analyzer.id
        assert pickle.loads(pickle.dumps(report.analysis)) == report.analysis
    with Memory.open(tmp_path / "home", embedder=None) as memory:
        assert list(memory.recall("Haus")) == []
        assert memory.recall("Häuser")[0].text == "Die Häuser am Fluss"


def test_highlight_marks_what_was_asked_for(tmp_path: Path) -> None:
    with Memory.open(tmp_path / "home", embedder=None) as memory:
        memory.remember("👍🏽 the cafe\u0301 runs", body="no such word")
        analysis = memory.recall("running 👍 café").analysis
        (hit,) = memory.recall("running 👍 café")
    assert analysis.highlight(hit.text) == "**👍🏽** the **cafe\u0301** **runs**"
    assert analysis.highlight(hit.text, "<", ">") == "<👍🏽> the <cafe\u0301> <runs>"
    assert [hit.text[start:end] for start, end in analysis.spans(hit.text)] == ["👍🏽", "cafe\u0301", "runs"]
    assert analysis.highlight(hit.episode.body or "") == "no such word"


@settings(max_examples=200)
@given(text=st.text(max_size=60), query=st.text(max_size=20))
def test_spans_are_places_of_the_text(text: str, query: str) -> None:
    for analyzer in (Analyzer(), Analyzer("plain")):
        last = -1
        for start, end in analyzer.spans(text, query + " " + text[:10]):
            assert last < start < end <= len(text)
            assert end == len(text) or unicodedata.combining(text[end]) == 0
            last = end
