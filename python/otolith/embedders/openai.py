"""Any server that speaks OpenAI's `/embeddings`: OpenAI, Ollama, LM Studio, vLLM, llama.cpp, TEI, LiteLLM."""

from __future__ import annotations

import base64
import binascii
import importlib.util
import json
import time
from collections.abc import Sequence
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from otolith.exceptions import EmbedderError, EmbedderUnavailable, InvalidInput

from .base import checked_row, fingerprint, stack
from .connections import Connections, OutOfTime, Unacceptable
from .prompts import PROMPTS, prompt_for

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from .base import Row

__all__ = ["DEFAULT_URL", "OpenAIEmbedder"]

DEFAULT_URL = "https://api.openai.com/v1"
DEFAULT_TIMEOUT = 60.0
"""Seconds for one request when the caller sets no limit: a local model may have to be loaded first."""

_BATCH = 32
_ATTEMPTS = 4
_LONGEST_PAUSE = 20.0
_PROBE = "otolith"
# What an answer may weigh: far above 8192 dimensions written as decimals, far below what would hurt.
_BYTES_PER_TEXT = 1 << 20
# Statuses with which servers refuse a text or a batch; llama.cpp says 500 above its physical batch.
_REJECTIONS = frozenset({400, 413, 422, 500})


class _Rejected(Exception):
    """The server took the request and refuses this content; fewer or other texts may pass."""

    def __init__(self, status: int, told: str) -> None:
        super().__init__(f"HTTP {status}: {told}")
        self.status = status
        self.told = told


class OpenAIEmbedder:
    """Asks a server for vectors.

    Args:
        model: Model id as the server names it. `MODEL?prompt=FORM` sets the prompt form (see
            `prompts.PROMPTS`) for servers that write the model's prompts themselves (`?prompt=none`) and for
            models whose name does not tell.
        url: Base URL up to and with `/v1`; default: OpenAI's own, and only with a key.
        key: Sent as bearer token; never shown or logged.
        timeout: Seconds for one request.
    """

    def __init__(
        self, model: str, *, url: str | None = None, key: str | None = None, timeout: float = DEFAULT_TIMEOUT
    ) -> None:
        name, _, form = model.partition("?prompt=")
        if not name.strip():
            raise InvalidInput(
                "embedder: openai: needs the name of a model, as in openai:bge-m3", field="embedder"
            )
        form = form or prompt_for(name)
        if form not in PROMPTS:
            raise InvalidInput(
                f"embedder: prompt form {form!r} is not one of {', '.join(PROMPTS)}", field="embedder"
            )
        if importlib.util.find_spec("httpx") is None:
            raise EmbedderUnavailable(
                f"openai:{model}: httpx is not installed; run `pip install otolith[openai]`",
                embedder=f"openai:{model}",
            )
        self._model = name
        self._spec = f"openai:{model}"
        self._form = form
        self._key = _header(key)
        if not url and self._key is None:
            # Texts go only to a server that somebody chose, by its address or by having a key for it.
            raise EmbedderUnavailable(
                f"openai:{model}: no server is named; set embedder_url (a server of your own) or "
                "embedder_key (api.openai.com)",
                embedder=f"openai:{model}",
            )
        self._url, self._shown = _endpoint(url or DEFAULT_URL)
        self._timeout = timeout
        self._dim: int | None = None
        self._batch = _BATCH
        self._encoding_format = True
        host = urlsplit(self._url).hostname or ""
        # A proxy has no business between this machine and itself.
        self._connections = Connections(
            proxied=host not in ("localhost", "::1") and not host.startswith("127.")
        )

    @property
    def dim(self) -> int | None:
        """Width of the vectors; pinned by the first answer."""
        return self._dim

    @property
    def fingerprint(self) -> str:
        """What vectors are stored under. The address is not part of it: a model may move."""
        return fingerprint(self._spec, self._form)

    def embed_documents(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """One row for each text; NaN where the server refuses a text."""
        return stack((checked_row(row, self._dim) for row in self.embed_rows(texts)), self._dim)

    def embed_query(self, text: str) -> NDArray[np.float32]:
        """The vector to search with."""
        row = checked_row(self.query_row(text), self._dim)
        if isinstance(row, str):
            raise EmbedderError(f"{self._spec}: the query vector {row}", embedder=self._spec)
        return row

    def embed_rows(self, texts: Sequence[str], *, timeout: float | None = None) -> list[Row]:
        """For each text a vector, or why there is none.

        Args:
            texts: The texts.
            timeout: Seconds for all of them.
        """
        end = None if timeout is None else time.monotonic() + timeout
        before = PROMPTS[self._form].document
        rows: list[Row] = []
        at = 0
        while at < len(texts):
            part = [before + text for text in texts[at : at + self._batch]]
            rows += self._halving(part, end)
            at += len(part)
        return rows

    def query_row(self, text: str, *, timeout: float | None = None) -> Row:
        """A vector to search with, or why there is none.

        Args:
            text: The question.
            timeout: Seconds.
        """
        end = None if timeout is None else time.monotonic() + timeout
        return self._halving([PROMPTS[self._form].query + text], end)[0]

    def close(self) -> None:
        """Closes the connections; they are opened again when needed."""
        self._connections.close()

    def __repr__(self) -> str:
        return f"OpenAIEmbedder({self._model!r}, url={self._shown!r})"

    # -- batches ------------------------------------------------------------------------------------------

    def _halving(self, texts: list[str], end: float | None) -> list[Row]:
        """All rows, by halves when the server refuses the whole."""
        try:
            return self._ask(texts, end)
        except _Rejected as error:
            if len(texts) == 1:
                return [self._blame(error, texts, end)]
        middle = len(texts) // 2
        rows = self._halving(texts[:middle], end) + self._halving(texts[middle:], end)
        if not any(isinstance(row, str) for row in rows):
            # No text was at fault, so the batch was too large: ask for less from now on.
            self._batch = max(1, min(self._batch, middle))
        return rows

    def _blame(self, error: _Rejected, texts: list[str], end: float | None) -> Row:
        """Finds out whether this text is at fault, or all are refused, as they are for an unknown model."""
        if error.status == 500:
            try:
                return self._ask(texts, end)[0]
            except _Rejected as again:
                error = again
        try:
            self._ask([_PROBE], end)
        except _Rejected as also:
            raise self._error(f"refuses every text, {also}; check the model name") from None
        return f"refused by the server: {error}"

    def _ask(self, texts: list[str], end: float | None) -> list[Row]:
        rows = self._parsed(self._post(texts, end), len(texts))
        missing = [at for at, row in enumerate(rows) if row is None]
        if missing and len(texts) > 1:
            for at in missing:
                rows[at] = self._ask([texts[at]], end)[0]
        checked = [checked_row(row, self._dim) for row in rows]
        if self._dim is None:
            self._dim = next((len(row) for row in checked if not isinstance(row, str)), None)
        return checked

    # -- one request --------------------------------------------------------------------------------------

    def _post(self, texts: list[str], end: float | None) -> bytes:
        """The body of a good answer; waits and repeats when the server is busy."""
        dropped = False
        for attempt in range(_ATTEMPTS):
            body: dict[str, Any] = {"model": self._model, "input": texts}
            sent_format = self._encoding_format
            if sent_format:
                body["encoding_format"] = "float"
            try:
                status, retry_after, content = self._send(body, len(texts), end)
            except _Dropped as error:
                if dropped:
                    raise self._error(f"{error}; is the server running?", unavailable=True) from None
                dropped = True
                continue
            if status == 200:
                return content
            told = self._told(content)
            if status in (429, 503):
                pause = _pause(retry_after, attempt)
                left = None if end is None else end - time.monotonic()
                if attempt + 1 == _ATTEMPTS or pause > _LONGEST_PAUSE or (left is not None and pause >= left):
                    raise self._error(f"is busy, HTTP {status}: {told}; try again later", unavailable=True)
                time.sleep(pause)
            elif status in (400, 422) and sent_format and "encoding_format" in told:
                self._encoding_format = False
            elif status in _REJECTIONS:
                raise _Rejected(status, told)
            elif status in (401, 403):
                raise self._error(
                    f"refused the key, HTTP {status}: {told}; set OTOLITH_EMBEDDER_KEY", unavailable=True
                )
            elif status == 404:
                raise self._error(
                    f"HTTP 404: {told}; check the model name and that the URL ends where /embeddings follows",
                    unavailable=True,
                )
            else:
                raise self._error(f"HTTP {status}: {told}", unavailable=status >= 500)
        raise self._error("gave no usable answer after several attempts", unavailable=True)

    def _send(self, body: dict[str, Any], texts: int, end: float | None) -> tuple[int, str | None, bytes]:
        import httpx

        left = self._timeout if end is None else min(self._timeout, end - time.monotonic())
        if left <= 0:
            raise self._error("no answer within the time limit", unavailable=True)
        # Strict UTF-8: a lone surrogate becomes "?" instead of failing the batch.
        content = json.dumps(body, ensure_ascii=False).encode("utf-8", "replace")
        headers = {"Content-Type": "application/json"}
        if self._key is not None:
            headers["Authorization"] = f"Bearer {self._key}"
        limit = (1 + texts) * _BYTES_PER_TEXT
        try:
            answer = self._connections.post(self._url, content, headers, seconds=left, limit=limit)
        except OutOfTime as error:
            raise self._error(str(error), unavailable=True) from None
        except Unacceptable as error:
            raise self._error(f"{error}, for {texts} texts") from None
        except httpx.TimeoutException:
            raise self._error(f"no answer within {left:.1f} s", unavailable=True) from None
        except httpx.ConnectError as error:
            raise self._error(
                f"cannot be reached ({error}); is the server running?", unavailable=True
            ) from None
        except (httpx.RemoteProtocolError, httpx.NetworkError) as error:
            raise _Dropped(f"the connection broke ({error})") from None
        except Exception as error:
            raise self._error(f"{type(error).__name__}: {error}", unavailable=True) from error
        return answer.status, answer.headers.get("retry-after"), answer.content

    # -- answers ------------------------------------------------------------------------------------------

    def _parsed(self, content: bytes, texts: int) -> list[Any]:
        """Raw rows in the order of the texts, None where the server gave none."""
        try:
            data = json.loads(content)["data"]
            if not isinstance(data, list):
                raise TypeError
            items = [(item.get("index"), _decoded(item["embedding"])) for item in data]
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            raise self._error("answered with no list of embeddings; check the URL") from None
        places = [place for place, _ in items]
        rows: list[Any] = [None] * texts
        numbered = all(isinstance(place, int) and 0 <= place < texts for place in places)
        if numbered and len(set(places)) == len(items):
            for place, row in items:
                rows[place] = row
        elif len(items) == texts:
            rows = [row for _, row in items]
        return rows

    def _told(self, content: bytes) -> str:
        """What the server says went wrong, short and without the key."""
        text = content[:4096].decode("utf-8", "replace")
        try:
            told = json.loads(content)
            for name in ("error", "message", "detail"):
                if isinstance(told, dict) and name in told:
                    told = told[name]
            text = told if isinstance(told, str) else json.dumps(told, ensure_ascii=False)
        except (ValueError, RecursionError):
            pass
        return self._masked(" ".join(text.split())[:300])

    def _masked(self, text: str) -> str:
        return text if self._key is None else text.replace(self._key, "***")

    def _error(self, what: str, *, unavailable: bool = False) -> EmbedderError:
        kind = EmbedderUnavailable if unavailable else EmbedderError
        return kind(self._masked(f"{self._spec} at {self._shown}: {what}"), embedder=self._spec)


class _Dropped(Exception):
    """The connection broke before an answer, as a kept one does when the server was started again."""


def _endpoint(url: str) -> tuple[str, str]:
    """The address to post to, and how it is shown."""
    base = url.strip().rstrip("/").removesuffix("/embeddings")
    try:
        parts = urlsplit(base)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError
        parts.port  # noqa: B018 - raises when it is no number
    except ValueError:
        raise InvalidInput(
            "embedder_url: is not a URL like http://127.0.0.1:8000/v1", field="embedder_url"
        ) from None
    shown = parts._replace(netloc=parts.netloc.rpartition("@")[2], query="", fragment="").geturl()
    address = parts._replace(path=f"{parts.path}/embeddings").geturl()
    return address, shown


def _header(key: str | None) -> str | None:
    key = (key or "").strip()
    if not key:
        return None
    if not key.isascii() or not key.isprintable():
        raise InvalidInput(
            "embedder_key: holds characters that no key has; copy it again", field="embedder_key"
        )
    return key


def _pause(retry_after: str | None, attempt: int) -> float:
    """Seconds to wait: what the server asks for, else half a second, doubling."""
    if retry_after:
        try:
            return max(0.0, float(retry_after))
        except ValueError:
            pass
        try:
            return max(0.0, parsedate_to_datetime(retry_after).timestamp() - time.time())
        except (ValueError, TypeError, OverflowError):
            pass
    return 0.5 * float(2**attempt)


def _decoded(embedding: Any) -> Any:
    """Numbers; servers that ignore `encoding_format` send base64 of little-endian float32."""
    if not isinstance(embedding, str):
        return embedding
    import numpy as np

    try:
        return np.frombuffer(base64.b64decode(embedding, validate=True), dtype="<f4")
    except (binascii.Error, ValueError):
        return "is not valid base64"
