"""The OpenAI-compatible adapter against a real server that plays each failure."""

from __future__ import annotations

import gzip
import logging
import socket
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
from embedding_server import (
    DIM,
    Answer,
    DrippingServer,
    EmbeddingServer,
    as_base64,
    embeddings,
    error,
    free_port,
    good,
    vector,
    wait_for,
)
from otolith import EmbedderError, EmbedderUnavailable, InvalidInput
from otolith.embedders import Embedder, resolve
from otolith.embedders.base import document_rows, query_vector

KEY = "sk-secret-0123456789"


def make(server: EmbeddingServer, model: str = "toy", **options: Any) -> Any:
    embedder = resolve(f"openai:{model}", url=server.url, **options)
    assert embedder is not None
    return embedder


@pytest.fixture
def embedder(server: EmbeddingServer) -> Any:
    made = make(server)
    yield made
    made.close()


def unit(text: str) -> Any:
    row = np.array(vector(text))
    return row / np.linalg.norm(row)


def good_rows(rows: list[Any], texts: list[str]) -> bool:
    return all(
        not isinstance(row, str) and np.allclose(row, unit(text), atol=1e-6)
        for row, text in zip(rows, texts, strict=True)
    )


def test_what_is_sent(server: EmbeddingServer, embedder: Embedder) -> None:
    assert embedder.dim is None
    rows = document_rows(embedder, ["one", "two words"])
    assert good_rows(rows, ["one", "two words"])
    assert embedder.dim == DIM
    assert server.requests == [{"model": "toy", "input": ["one", "two words"], "encoding_format": "float"}]
    assert "Authorization" not in server.headers[0]
    assert query_vector(embedder, "one") == pytest.approx(unit("one"), abs=1e-6)
    assert embedder.embed_documents(["a"]).shape == (1, DIM)
    assert embedder.embed_query("a").shape == (DIM,)


def test_prompts_are_written_before_the_text(server: EmbeddingServer) -> None:
    e5 = make(server, "intfloat/multilingual-e5-small")
    document_rows(e5, ["doc"])
    query_vector(e5, "question")
    assert server.texts == ["passage: doc", "query: question"]
    assert "|prompt=e5|" in e5.fingerprint
    bare = make(server, "intfloat/multilingual-e5-small?prompt=none")
    document_rows(bare, ["doc"])
    assert server.texts[-1] == "doc"
    assert server.requests[-1]["model"] == "intfloat/multilingual-e5-small"
    assert bare.fingerprint != e5.fingerprint
    with pytest.raises(InvalidInput, match="prompt form"):
        make(server, "x?prompt=poem")
    e5.close()
    bare.close()


def test_batches(server: EmbeddingServer, embedder: Embedder) -> None:
    texts = [f"text {n}" for n in range(70)]
    assert good_rows(document_rows(embedder, texts), texts)
    assert [len(request["input"]) for request in server.requests] == [32, 32, 6]


def test_answers_in_another_order(server: EmbeddingServer, embedder: Embedder) -> None:
    def shuffled(request: dict[str, Any]) -> Answer:
        rows = [vector(text) for text in request["input"]]
        return embeddings(rows[::-1], list(range(len(rows)))[::-1])

    server.play = shuffled
    assert good_rows(document_rows(embedder, ["a", "b", "c"]), ["a", "b", "c"])


def test_answers_without_index(server: EmbeddingServer, embedder: Embedder) -> None:
    server.play = lambda request: Answer(
        200, {"data": [{"embedding": vector(text)} for text in request["input"]]}
    )
    assert good_rows(document_rows(embedder, ["a", "b"]), ["a", "b"])


def test_base64_answers(server: EmbeddingServer, embedder: Embedder) -> None:
    server.play = lambda request: embeddings([as_base64(vector(text)) for text in request["input"]])
    assert good_rows(document_rows(embedder, ["a", "b"]), ["a", "b"])
    server.play = lambda request: embeddings(["***"])
    assert isinstance(document_rows(embedder, ["a"])[0], str)


@pytest.mark.parametrize("status", [400, 413, 422, 500])
def test_a_batch_that_is_too_large_is_halved_and_remembered(
    server: EmbeddingServer, embedder: Embedder, status: int
) -> None:
    def at_most_ten(request: dict[str, Any]) -> Answer:
        return good(request) if len(request["input"]) <= 10 else error(status, "batch size too large")

    server.play = at_most_ten
    texts = [f"text {n}" for n in range(40)]
    assert good_rows(document_rows(embedder, texts), texts)
    before = len(server.requests)
    assert good_rows(document_rows(embedder, texts), texts)
    assert max(len(request["input"]) for request in server.requests[before:]) <= 10


def test_one_text_the_server_refuses_spoils_no_other(server: EmbeddingServer, embedder: Embedder) -> None:
    def not_long(request: dict[str, Any]) -> Answer:
        return error(400, "input too long") if "long" in request["input"] else good(request)

    server.play = not_long
    rows = document_rows(embedder, ["a", "b", "long", "c"])
    assert "input too long" in rows[2]
    assert good_rows(rows[:2] + rows[3:], ["a", "b", "c"])
    server.requests.clear()
    document_rows(embedder, [f"t{n}" for n in range(32)])
    assert len(server.requests) == 1  # the batch was not at fault


@pytest.mark.parametrize(
    ("status", "told"),
    [
        (400, "This model's maximum context length is 512 tokens, however you requested 700 tokens"),
        (413, "Input validation error: `inputs` must have less than 512 tokens. Given: 700"),
        (500, "input (700 tokens) is too large to process. increase the physical batch size"),
        (400, "the input length exceeds the context length"),
    ],
    ids=["OpenAI and vLLM", "TEI", "llama.cpp", "Ollama"],
)
def test_a_text_longer_than_the_model_reads_is_cut(
    server: EmbeddingServer, embedder: Embedder, status: int, told: str
) -> None:
    """Records whose text was a little too long had no vector at all."""

    def at_most(request: dict[str, Any]) -> Answer:
        return error(status, told) if max(map(len, request["input"])) > 1000 else good(request)

    server.play = at_most
    rows = document_rows(embedder, ["a", "word " * 300, "b"])
    assert good_rows([rows[0], rows[2]], ["a", "b"])
    assert float(np.dot(rows[1], unit("word"))) > 0.99
    assert max(len(text) for text in server.texts if len(text) <= 1000) > 700


def test_an_error_with_status_200_is_told(server: EmbeddingServer, embedder: Embedder) -> None:
    server.play = lambda request: Answer(200, {"error": {"message": "no model loaded"}})
    with pytest.raises(EmbedderError, match=r"no list of embeddings \(no model loaded\); check the URL"):
        document_rows(embedder, ["a"])


def test_an_unknown_model_refuses_no_text(server: EmbeddingServer, embedder: Embedder) -> None:
    server.play = lambda request: error(400, "unknown model toy")
    with pytest.raises(EmbedderError, match="unknown model"):
        document_rows(embedder, [f"t{n}" for n in range(32)])
    assert len(server.requests) < 12


def test_encoding_format_is_left_out_when_it_is_not_liked(
    server: EmbeddingServer, embedder: Embedder
) -> None:
    def picky(request: dict[str, Any]) -> Answer:
        return (
            error(400, "encoding_format 'float' is not valid")
            if "encoding_format" in request
            else good(request)
        )

    server.play = picky
    assert good_rows(document_rows(embedder, ["a"]), ["a"])
    assert good_rows(document_rows(embedder, ["b"]), ["b"])
    assert ["encoding_format" in request for request in server.requests] == [True, False, False]


def test_dimensions_are_sent_only_when_they_are_asked_for(server: EmbeddingServer) -> None:
    """A server refuses the field for models that were not trained for it."""

    def whole(request: dict[str, Any]) -> Answer:
        if "dimensions" in request:
            return error(400, 'Model "toy" does not support matryoshka representation')
        return good(request)

    row = np.array(vector("a"))[:8]
    wanted = row / np.linalg.norm(row)
    shorter = make(server, "toy?dim=8")
    assert shorter.dim == 8
    server.play = lambda request: embeddings([vector(text)[:8] for text in request["input"]])
    assert document_rows(shorter, ["a"])[0] == pytest.approx(wanted, abs=1e-6)
    assert server.requests[-1]["dimensions"] == 8
    server.play = whole
    refused = make(server, "toy?dim=8")
    for _ in range(2):
        assert document_rows(refused, ["a"])[0] == pytest.approx(wanted, abs=1e-6)
    assert ["dimensions" in request for request in server.requests[-3:]] == [True, False, False]
    plain = make(server)
    document_rows(plain, ["a"])
    assert "dimensions" not in server.requests[-1]
    wide = make(server, "toy?dim=99")
    with pytest.raises(EmbedderError, match="gives 64 numbers, fewer than dim=99"):
        document_rows(wide, ["a"])
    for embedder in (shorter, refused, plain, wide):
        embedder.close()


@pytest.mark.parametrize(
    ("answer", "later"),
    [
        (error(429, "slow down", Retry_After="90"), 90.0),
        (error(503, "loading", Retry_After="0"), 0.0),
        (error(504, "gateway"), 5.0),
        (error(502, "gateway"), 5.0),
        (error(401, "key"), None),
        (error(404, "model"), None),
    ],
)
def test_errors_say_when_asking_again_may_help(
    server: EmbeddingServer, embedder: Embedder, answer: Answer, later: float | None
) -> None:
    server.play = lambda request: answer
    with pytest.raises(EmbedderUnavailable) as caught:
        document_rows(embedder, ["a"])
    assert caught.value.retry_after == later


@pytest.mark.parametrize("status", [429, 503])
def test_a_busy_server_is_waited_for(server: EmbeddingServer, embedder: Embedder, status: int) -> None:
    answers = [error(status, "slow down", Retry_After="0.2"), error(status, "slow down", Retry_After="0")]
    server.play = lambda request: answers.pop(0) if answers else good(request)
    start = time.monotonic()
    assert good_rows(document_rows(embedder, ["a"]), ["a"])
    assert 0.2 <= time.monotonic() - start < 5
    assert len(server.requests) == 3


def test_nobody_waits_for_an_hour(server: EmbeddingServer, embedder: Embedder) -> None:
    server.play = lambda request: error(429, "quota", Retry_After="3600")
    start = time.monotonic()
    with pytest.raises(EmbedderUnavailable, match="quota"):
        document_rows(embedder, ["a"])
    server.play = lambda request: error(429, "quota", Retry_After="Wed, 21 Oct 2099 07:28:00 GMT")
    with pytest.raises(EmbedderUnavailable, match="quota"):
        document_rows(embedder, ["a"])
    server.play = lambda request: error(429, "quota", Retry_After="1.5")
    with pytest.raises(EmbedderUnavailable, match="quota"):
        document_rows(embedder, ["a"], timeout=1.0)
    assert time.monotonic() - start < 2


def test_a_busy_server_is_given_up_at_last(server: EmbeddingServer, embedder: Embedder) -> None:
    server.play = lambda request: error(503, "loading", Retry_After="0")
    with pytest.raises(EmbedderUnavailable, match="loading"):
        document_rows(embedder, ["a"])
    assert len(server.requests) == 4


@pytest.mark.parametrize(
    ("status", "told"),
    [(401, "OTOLITH_EMBEDDER_KEY"), (403, "OTOLITH_EMBEDDER_KEY"), (404, "model name"), (502, "502")],
)
def test_statuses_that_no_text_is_to_blame_for(
    server: EmbeddingServer, embedder: Embedder, status: int, told: str
) -> None:
    server.play = lambda request: error(status, "no")
    with pytest.raises(EmbedderUnavailable, match=told):
        document_rows(embedder, ["a", "b"])
    assert len(server.requests) == 1


def test_the_time_limit_holds(server: EmbeddingServer, embedder: Embedder) -> None:
    server.play = lambda request: Answer(wait=10)
    for call in (
        lambda: document_rows(embedder, ["a"], timeout=0.4),
        lambda: query_vector(embedder, "a", timeout=0.4),
    ):
        start = time.monotonic()
        with pytest.raises(EmbedderUnavailable, match=r"0\.4 s"):
            call()
        assert time.monotonic() - start < 2


CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n"


@pytest.mark.parametrize(
    ("start", "drop"),
    [
        (b"HTTP/1.1 200 OK\r\n", b"X-More: a\r\n"),
        (b"", b"HTTP/1.1 100 Continue\r\n\r\n"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n", b" "),
        (CHUNKED + b"\r\n", b"0"),
        (
            CHUNKED + b"Content-Encoding: gzip\r\n\r\na\r\n" + gzip.compress(b"")[:10] + b"\r\n",
            b"5\r\n\0\0\0\xff\xff\r\n",
        ),
        (b"", b"H"),
    ],
    ids=["header lines", "100 Continue", "body", "digits of a chunk", "empty gzip blocks", "status line"],
)
def test_a_server_that_drips_holds_nobody(start: bytes, drop: bytes) -> None:
    with DrippingServer(start, drop) as dripping:
        embedder: Any = resolve("openai:toy", url=dripping.url)
        for call in (
            lambda: document_rows(embedder, ["a"], timeout=0.5),
            lambda: query_vector(embedder, "a", timeout=0.5),
        ):
            begin = time.monotonic()
            with pytest.raises(EmbedderError):
                call()
            assert time.monotonic() - begin < 1.5
        embedder.close()
        assert dripping.served >= 2
        assert wait_for(lambda: dripping.listening == 0, 5)  # no connection stays behind


def test_a_name_that_is_looked_up_for_ever_holds_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    asked, over = threading.Event(), threading.Event()

    def stuck(*_: object, **__: object) -> Any:
        asked.set()
        over.wait(20)
        raise socket.gaierror("no such name")

    monkeypatch.setattr(socket, "getaddrinfo", stuck)
    embedder: Any = resolve("openai:toy", url="http://embeddings.invalid/v1")
    begin = time.monotonic()
    with pytest.raises(EmbedderUnavailable, match=r"0\.5 s"):
        query_vector(embedder, "a", timeout=0.5)
    assert time.monotonic() - begin < 1.5
    assert asked.is_set()
    over.set()
    embedder.close()


def test_a_late_answer_spoils_no_later_one(server: EmbeddingServer, embedder: Embedder) -> None:
    server.play = lambda request: Answer(200, good(request).body, wait=1.0)
    with pytest.raises(EmbedderUnavailable):
        document_rows(embedder, ["late"], timeout=0.3)
    server.play = good
    assert good_rows(document_rows(embedder, ["in time"]), ["in time"])


def test_one_connection_is_kept_for_all_requests(server: EmbeddingServer, embedder: Embedder) -> None:
    for number in range(5):
        query_vector(embedder, f"question {number}")
    assert len(server.peers) == 1


def test_many_threads_ask_at_once(server: EmbeddingServer, embedder: Embedder) -> None:
    with ThreadPoolExecutor(8) as pool:
        texts = [f"text {number}" for number in range(80)]
        rows = list(pool.map(lambda text: document_rows(embedder, [text], timeout=20)[0], texts))
    assert good_rows(rows, texts)


def test_encoded_answers_are_refused(server: EmbeddingServer, embedder: Embedder) -> None:
    bomb = gzip.compress(bytes(50 << 20))
    server.play = lambda request: Answer(200, bomb, {"Content-Encoding": "gzip"})
    with pytest.raises(EmbedderError, match="gzip"):
        document_rows(embedder, ["a"])
    assert {one["Accept-Encoding"] for one in server.headers} == {"identity"}


def test_an_answer_that_is_too_large_is_not_read_on(server: EmbeddingServer, embedder: Embedder) -> None:
    server.play = lambda request: Answer(200, b" " * (5 << 20))
    with pytest.raises(EmbedderError, match="more than"):
        document_rows(embedder, ["a"])


def test_nobody_listens() -> None:
    embedder: Any = resolve("openai:toy", url=f"http://127.0.0.1:{free_port()}/v1")
    with pytest.raises(EmbedderUnavailable, match="is the server running"):
        document_rows(embedder, ["a"])
    embedder.close()


def test_a_connection_that_breaks_is_tried_once_more(server: EmbeddingServer, embedder: Embedder) -> None:
    answers: list[Answer | None] = [None]
    server.play = lambda request: answers.pop(0) if answers else good(request)
    assert good_rows(document_rows(embedder, ["a"]), ["a"])
    server.play = lambda request: None
    with pytest.raises(EmbedderUnavailable, match="connection broke"):
        document_rows(embedder, ["a"])


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"<html>hello</html>",
        b"[]",
        b"{}",
        b'{"data": 5}',
        b'{"data": [5]}',
        b'{"data": [{"index": 0}]}',
        b"[" * 9999,
    ],
)
def test_answers_that_are_no_embeddings(server: EmbeddingServer, embedder: Embedder, body: bytes) -> None:
    server.play = lambda request: Answer(200, body)
    with pytest.raises(EmbedderError, match="check the URL"):
        document_rows(embedder, ["a"])


def test_too_few_vectors_are_asked_for_again(server: EmbeddingServer, embedder: Embedder) -> None:
    server.play = lambda request: embeddings([vector(text) for text in request["input"]][:1])
    assert good_rows(document_rows(embedder, ["a", "b", "c"]), ["a", "b", "c"])
    server.play = lambda request: embeddings([])
    assert isinstance(document_rows(embedder, ["a"])[0], str)


def test_rows_that_cannot_be_used(server: EmbeddingServer, embedder: Embedder) -> None:
    document_rows(embedder, ["pin the width"])
    bad = [[0.0] * DIM, [float("nan")] * DIM, [1.0] * (DIM + 1), vector("fine")]
    server.play = lambda request: embeddings(bad)
    rows = document_rows(embedder, ["a", "b", "c", "fine"])
    assert [isinstance(row, str) for row in rows] == [True, True, True, False]
    assert embedder.dim == DIM


def test_the_key_is_sent_and_never_shown(server: EmbeddingServer, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    embedder = make(server, key=KEY)
    document_rows(embedder, ["a"])
    assert server.headers[0]["Authorization"] == f"Bearer {KEY}"
    server.play = lambda request: error(401, f"Incorrect API key provided: {KEY}")
    with pytest.raises(EmbedderUnavailable) as caught:
        document_rows(embedder, ["a"])
    assert "Incorrect API key" in str(caught.value)
    for text in (str(caught.value), repr(embedder), embedder.fingerprint, caplog.text):
        assert KEY not in text
    embedder.close()
    with pytest.raises(InvalidInput) as wrong:
        make(server, key=KEY + "\nX-Evil: 1")
    assert KEY not in str(wrong.value)


def test_a_redirect_takes_the_key_nowhere(server: EmbeddingServer) -> None:
    with EmbeddingServer() as other:
        server.play = lambda request: Answer(307, {}, {"Location": other.url + "/embeddings"})
        embedder = make(server, key=KEY)
        with pytest.raises(EmbedderError, match="307"):
            document_rows(embedder, ["a"])
        assert other.requests == []
        embedder.close()


@pytest.mark.parametrize(
    "url", ["localhost:8000", "ftp://x/v1", "http://", "http://x:port/v1", "file:///etc/passwd"]
)
def test_urls_that_cannot_be_used(url: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        resolve("openai:toy", url=url)
    assert caught.value.field == "embedder_url"


def test_the_url_may_end_in_several_ways(server: EmbeddingServer) -> None:
    for url in (server.url, server.url + "/", server.url + "/embeddings"):
        embedder: Any = resolve("openai:toy", url=url)
        document_rows(embedder, ["a"])
        embedder.close()


def test_without_httpx_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "httpx", None)
    with pytest.raises(EmbedderUnavailable, match=r"pip install otolith\[openai\]"):
        resolve("openai:toy", url="http://127.0.0.1:1/v1")


@pytest.mark.parametrize("given", [{}, {"url": ""}, {"key": " "}])
def test_without_address_and_key_nobody_is_asked(given: dict[str, str]) -> None:
    """Naming a model is no leave to send texts to a company."""
    with pytest.raises(EmbedderUnavailable, match=r"set embedder_url \(a server of your own\) or emb"):
        resolve("openai:toy", **given)
    embedder: Any = resolve("openai:toy", key="sk-1")
    assert "api.openai.com" in repr(embedder)
