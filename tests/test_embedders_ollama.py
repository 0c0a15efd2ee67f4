"""The adapter of Ollama against a real server that plays what Ollama is known for."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from embedding_server import (
    DIM,
    Answer,
    EmbeddingServer,
    error,
    free_port,
    ollama,
    ollama_error,
    ollama_rows,
    vector,
    wait_for,
)
from otolith import EmbedderError, EmbedderUnavailable, InvalidInput, Memory
from otolith.embedders import resolve
from otolith.embedders.base import document_rows, query_vector
from otolith.embedders.naming import named
from otolith.embedders.ollama import OllamaEmbedder

TOO_LONG = "the input length exceeds the context length"


@pytest.fixture
def server() -> Iterator[EmbeddingServer]:
    with EmbeddingServer() as running:
        running.path = "/api/embed"
        running.play = ollama
        yield running


MADE: list[Any] = []


@pytest.fixture(autouse=True)
def _closed() -> Iterator[None]:
    yield
    while MADE:
        MADE.pop().close()


def at(url: str | None, model: str = "toy") -> Any:
    MADE.append(resolve(f"ollama:{model}", url=url))
    return MADE[-1]


def make(server: EmbeddingServer, model: str = "toy") -> Any:
    return at(server.url.removesuffix("/v1"), model)


def unit(text: str) -> Any:
    row = np.array(vector(text))
    return row / np.linalg.norm(row)


def test_what_is_sent(server: EmbeddingServer) -> None:
    embedder = make(server, "nomic-embed-text")
    rows = document_rows(embedder, ["one", "two words"])
    assert rows[1] == pytest.approx(unit("search_document: two words"), abs=1e-6)
    assert server.requests == [
        {
            "model": "nomic-embed-text",
            "input": ["search_document: one", "search_document: two words"],
            "truncate": True,
        }
    ]
    query_vector(embedder, "what")
    assert server.texts[-1] == "search_query: what"
    assert embedder.fingerprint.startswith("ollama:nomic-embed-text|prompt=nomic|text=v")
    assert embedder.dim == DIM


@pytest.mark.parametrize("end", ["", "/", "/v1", "/v1/", "/api", "/api/embed"])
def test_the_address_may_be_that_of_another_door(server: EmbeddingServer, end: str) -> None:
    base = server.url.removesuffix("/v1")
    embedder = at(base + end)
    assert len(document_rows(embedder, ["a"])[0]) == DIM


@pytest.mark.parametrize(
    ("host", "shown"),
    [
        ("", "http://127.0.0.1:11434"),
        ("gpu", "http://gpu:11434"),
        ("gpu:99", "http://gpu:99"),
        ("0.0.0.0", "http://127.0.0.1:11434"),
        ("0.0.0.0:99", "http://127.0.0.1:99"),
        ("https://gpu", "https://gpu:443"),
        ("http://gpu/behind", "http://gpu:80/behind"),
        ("[::1]:99", "http://[::1]:99"),
    ],
)
def test_the_server_is_that_of_ollamas_own_client(
    host: str, shown: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OLLAMA_HOST", host)
    assert repr(OllamaEmbedder(named("toy"))) == f"OllamaEmbedder('toy', url='{shown}')"
    monkeypatch.setenv("OLLAMA_HOST", "http://:99")
    with pytest.raises(InvalidInput, match="is not a URL"):
        OllamaEmbedder(named("toy"))


def test_a_key_goes_only_to_the_server_it_was_set_with(
    server: EmbeddingServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTOLITH_EMBEDDER_KEY", "sk-1")
    monkeypatch.setenv("OLLAMA_HOST", server.url.removesuffix("/v1"))
    plain = at(None)
    query_vector(plain, "a")
    assert "Authorization" not in server.headers[-1]
    monkeypatch.setenv("OTOLITH_EMBEDDER_URL", server.url)
    named_one = at(None)
    query_vector(named_one, "a")
    assert server.headers[-1]["Authorization"] == "Bearer sk-1"


def test_a_model_that_was_not_pulled(server: EmbeddingServer) -> None:
    server.play = lambda request: ollama_error(404, 'model "toy" not found, try pulling it first')
    with pytest.raises(EmbedderUnavailable, match=r"try pulling it first; get it with `ollama pull toy`"):
        document_rows(make(server), ["a", "b"])
    assert len(server.requests) == 1


def test_a_server_without_this_door(server: EmbeddingServer) -> None:
    server.path = "/api/embeddings"  # all that versions before 0.3 have
    with pytest.raises(EmbedderUnavailable, match=r"no /api/embed: the server is older than 0\.3"):
        document_rows(make(server), ["a"])


def test_a_text_that_is_too_long_is_cut(server: EmbeddingServer) -> None:
    """Versions from 0.13.5 on refuse it whatever `truncate` says, and say so of the whole batch."""

    def at_most(request: dict[str, Any]) -> Answer:
        if any(len(text) > 1000 for text in request["input"]):
            return ollama_error(400, TOO_LONG)
        return ollama(request)

    server.play = at_most
    long = "word " * 500
    rows = document_rows(make(server), ["a", long, "b"])
    assert rows[0] == pytest.approx(unit("a"), abs=1e-6)
    assert rows[2] == pytest.approx(unit("b"), abs=1e-6)
    assert isinstance(rows[1], np.ndarray)
    assert float(np.dot(rows[1], unit("word"))) > 0.99
    sent = [text for text in server.texts if text.startswith("word") and len(text) <= 1000]
    assert [long.startswith(text) for text in sent] == [True]
    assert len(sent[0]) > 700


def test_a_text_that_is_never_short_enough_is_refused(server: EmbeddingServer) -> None:
    server.play = lambda request: (
        ollama_error(400, TOO_LONG) if request["input"] != ["otolith"] else ollama(request)
    )
    rows = document_rows(make(server), ["word " * 500])
    assert isinstance(rows[0], str)
    assert TOO_LONG in rows[0]
    assert len(server.requests) < 20


def test_another_count_of_rows_is_asked_for_one_by_one(server: EmbeddingServer) -> None:
    server.play = lambda request: ollama_rows([vector(text) for text in request["input"]][:1])
    rows = document_rows(make(server), ["a", "b"])
    assert [row == pytest.approx(unit(text), abs=1e-6) for row, text in zip(rows, "ab", strict=True)]
    server.play = lambda request: ollama_rows([])
    with pytest.raises(EmbedderError, match="the query vector is missing"):
        query_vector(make(server), "a")
    assert isinstance(document_rows(make(server), ["a"])[0], str)


@pytest.mark.parametrize("body", [b"", b"{}", b'{"embeddings": 5}', b'{"embedding": [1, 2]}', b"[]"])
def test_answers_that_are_no_embeddings(server: EmbeddingServer, body: bytes) -> None:
    server.play = lambda request: Answer(200, body)
    with pytest.raises(EmbedderError, match="check the URL"):
        document_rows(make(server), ["a"])


@pytest.mark.parametrize(("given", "sent"), [("30m", "30m"), ("-1", -1), ("0", 0)])
def test_how_long_a_model_is_kept_is_no_part_of_its_vectors(
    server: EmbeddingServer, given: str, sent: object
) -> None:
    embedder = make(server, f"toy?keep_alive={given}")
    document_rows(embedder, ["a"])
    assert server.requests[-1]["keep_alive"] == sent
    assert embedder.fingerprint == make(server).fingerprint


def test_fewer_dimensions(server: EmbeddingServer) -> None:
    row = np.array(vector("a"))[:8]
    wanted = row / np.linalg.norm(row)
    told = make(server, "toy?dim=8")
    assert document_rows(told, ["a"])[0] == pytest.approx(wanted, abs=1e-6)
    assert server.requests[-1]["dimensions"] == 8
    # Versions that do not know the field send whole vectors.
    server.play = lambda request: ollama_rows([vector(text) for text in request["input"]])
    assert document_rows(make(server, "toy?dim=8"), ["a"])[0] == pytest.approx(wanted, abs=1e-6)


def test_a_model_that_is_not_loaded_yet_gets_loaded(server: EmbeddingServer) -> None:
    """Ollama stops loading when the request goes away, so a limit of seconds never saw a large one loaded."""
    loaded = threading.Event()

    def cold(request: dict[str, Any]) -> Answer:
        if loaded.is_set():
            return ollama(request)
        if request["input"]:
            return Answer(wait=20)
        loaded.set()  # nobody went away
        return ollama_rows([])

    server.play = cold
    embedder = make(server)
    with pytest.raises(EmbedderUnavailable, match=r"no whole answer within 0\.3 s"):
        query_vector(embedder, "a", timeout=0.3)
    assert wait_for(loaded.is_set, 5)
    assert len(query_vector(embedder, "a", timeout=5)) == DIM
    assert [request["input"] for request in server.requests].count([]) == 1


def test_nobody_listens() -> None:
    embedder = at(f"http://127.0.0.1:{free_port()}")
    with pytest.raises(EmbedderUnavailable, match="is the server running"):
        document_rows(embedder, ["a"])


def test_a_memory_with_ollama(server: EmbeddingServer, home: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OLLAMA_HOST", server.url.removesuffix("/v1"))
    monkeypatch.setenv("OTOLITH_EMBEDDER", "ollama:toy")
    with Memory.open(home) as memory:
        memory.remember("the token expired")
        assert memory.coverage().vectorized == 1
        server.play = lambda request: error(503, "busy", Retry_After="0")
        memory.remember("written all the same")
        assert (len(memory), memory.coverage().pending) == (2, 1)
        assert "busy" in (memory.recall("anything").legs["vector"].reason or "")
    server.play = ollama
    monkeypatch.delenv("OTOLITH_EMBEDDER")
    with Memory.open(home) as memory:  # the home knows, and so does OLLAMA_HOST
        assert memory.status().embedder_source == "home"
        assert memory.embed_pending().embedded == 1
