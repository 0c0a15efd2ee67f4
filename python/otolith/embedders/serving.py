"""What adapters share that ask a server over HTTP: batches, refusals, waiting, and what is told of it."""

from __future__ import annotations

import importlib.util
import json
import re
import time
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Any
from urllib.parse import SplitResult, urlsplit

from otolith.exceptions import EmbedderError, InvalidInput

from .connections import Connections, OutOfTime, Unacceptable
from .model import ModelEmbedder

if TYPE_CHECKING:
    from .base import Row
    from .naming import Name

__all__ = ["DEFAULT_TIMEOUT", "ServerEmbedder", "address"]

DEFAULT_TIMEOUT = 60.0
"""Seconds for one request when the caller sets no limit: a local model may have to be loaded first."""

_BATCH = 32
_ATTEMPTS = 4
_LONGEST_PAUSE = 20.0
# When to ask again a server that failed without saying when.
_LATER = 5.0
_PROBE = "otolith"
# How servers say that a text is longer than the model reads: Ollama, OpenAI, vLLM, TEI, llama.cpp.
_TOO_LONG = re.compile(
    r"(context|input|sequence) length|less than \d+ tokens|too (long|large)|exceeds?\b.*\b(tokens?|context)",
    re.IGNORECASE,
)
_SHORTEST = 200
# What an answer may weigh: far above 8192 dimensions written as decimals, far below what would hurt.
_BYTES_PER_TEXT = 1 << 20
# Statuses with which servers refuse a text or a batch; llama.cpp says 500 above its physical batch.
_REJECTIONS = frozenset({400, 413, 422, 500})


class Rejected(Exception):
    """The server took the request and refuses this content; fewer or other texts may pass."""

    def __init__(self, status: int, told: str) -> None:
        super().__init__(f"HTTP {status}: {told}")
        self.status = status
        self.told = told


class _Dropped(Exception):
    """The connection broke before an answer, as a kept one does when the server was started again."""


class ServerEmbedder(ModelEmbedder):
    """Asks a server for vectors. An adapter says what is sent and how the answer is read.

    Args:
        kind: The adapter, as in specs; also the extra that installs what it needs.
        name: The model and what was asked for with it.
        url: Where requests go.
        shown: How that address is shown.
        key: Sent as bearer token; never shown or logged.
        timeout: Seconds for one request.
        form: As in `ModelEmbedder`.
    """

    _key: str | None = None
    _shown: str | None = None

    def __init__(
        self,
        kind: str,
        name: Name,
        *,
        url: str,
        shown: str,
        key: str | None,
        timeout: float,
        form: str | None = None,
    ) -> None:
        super().__init__(kind, name, form=form)
        if importlib.util.find_spec("httpx") is None:
            raise self._error(f"httpx is not installed; run `pip install otolith[{kind}]`", unavailable=True)
        self._url, self._shown = url, shown
        self._key = _header(key)
        self._timeout = timeout
        self._batch = _BATCH
        self._ask_dimensions = name.dim is not None
        host = urlsplit(url).hostname or ""
        # A proxy has no business between this machine and itself.
        self._connections = Connections(
            proxied=host not in ("localhost", "::1") and not host.startswith("127.")
        )

    def close(self) -> None:
        """Closes the connections; they are opened again when needed."""
        self._connections.close()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._model!r}, url={self._shown!r})"

    # -- what an adapter says -----------------------------------------------------------------------------

    def _body(self, texts: list[str]) -> dict[str, Any]:
        """The request for some texts."""
        raise NotImplementedError

    def _parsed(self, content: bytes, texts: int) -> list[Any]:
        """Raw rows in the order of the texts, None where the server gave none."""
        raise NotImplementedError

    def _missing(self, told: str) -> str:
        """What HTTP 404 means, and what to do."""
        raise NotImplementedError

    def _adapted(self, body: dict[str, Any], told: str) -> bool:
        """Whether something the server does not like was in the request and is left out from now on."""
        if "dimensions" in body and ("dimension" in told or "matryoshka" in told.lower()):
            self._ask_dimensions = False  # the rows are cut here then
            return True
        return False

    def _no_rows(self, content: bytes) -> EmbedderError:
        """The error for an answer without vectors; some servers say with HTTP 200 what is wrong."""
        told = f" ({self._told(content)})" if b'"error"' in content[:4096] else ""
        return self._error(f"answered with no list of embeddings{told}; check the URL")

    def _out_of_time(self) -> None:
        """Called when there was no answer in time."""

    # -- batches ------------------------------------------------------------------------------------------

    def _rows(self, texts: list[str], end: float | None, *, query: bool) -> list[Row]:
        rows: list[Row] = []
        at = 0
        while at < len(texts):
            part = texts[at : at + self._batch]
            rows += self._halving(part, end)
            at += len(part)
        return rows

    def _halving(self, texts: list[str], end: float | None) -> list[Row]:
        """All rows, by halves when the server refuses the whole."""
        try:
            return self._ask(texts, end)
        except Rejected as error:
            if len(texts) == 1:
                return [self._blame(error, texts, end)]
        middle = len(texts) // 2
        rows = self._halving(texts[:middle], end) + self._halving(texts[middle:], end)
        if not any(isinstance(row, str) for row in rows):
            # No text was at fault, so the batch was too large: ask for less from now on.
            self._batch = max(1, min(self._batch, middle))
        return rows

    def _blame(self, error: Rejected, texts: list[str], end: float | None) -> Row:
        """Finds out whether this text is at fault, or all are refused, as they are for an unknown model."""
        if error.status == 500:
            try:
                return self._ask(texts, end)[0]
            except Rejected as again:
                error = again
        text = texts[0]
        # As most servers do unasked: what the model cannot read of a text is left out of its vector.
        while _TOO_LONG.search(error.told) and len(text) > _SHORTEST:
            text = text[: len(text) * 3 // 4]
            try:
                return self._ask([text], end)[0]
            except Rejected as again:
                error = again
        try:
            self._ask([_PROBE], end)
        except Rejected as also:
            raise self._error(f"refuses every text, {also}; check the model name") from None
        return f"refused by the server: {error}"

    def _ask(self, texts: list[str], end: float | None) -> list[Row]:
        rows = self._parsed(self._post(texts, end), len(texts))
        missing = [at for at, row in enumerate(rows) if row is None]
        if missing and len(texts) > 1:
            for at in missing:
                rows[at] = self._ask([texts[at]], end)[0]
        return [self._finished(row) for row in rows]

    # -- one request --------------------------------------------------------------------------------------

    def _post(self, texts: list[str], end: float | None) -> bytes:
        """The body of a good answer; waits and repeats when the server is busy."""
        dropped = False
        for attempt in range(_ATTEMPTS):
            body = self._body(texts)
            try:
                status, retry_after, content = self._send(body, len(texts), end)
            except _Dropped as error:
                if dropped:
                    raise self._error(
                        f"{error}; is the server running?", unavailable=True, retry_after=_LATER
                    ) from None
                dropped = True
                continue
            if status == 200:
                return content
            told = self._told(content)
            if status in (429, 503):
                pause = _pause(retry_after, attempt)
                left = None if end is None else end - time.monotonic()
                if attempt + 1 == _ATTEMPTS or pause > _LONGEST_PAUSE or (left is not None and pause >= left):
                    raise self._error(
                        f"is busy, HTTP {status}: {told}; try again later",
                        unavailable=True,
                        retry_after=pause,
                    )
                time.sleep(pause)
            elif status in (400, 422) and self._adapted(body, told):
                continue
            elif status in _REJECTIONS:
                raise Rejected(status, told)
            elif status in (401, 403):
                raise self._error(
                    f"refused the key, HTTP {status}: {told}; set OTOLITH_EMBEDDER_KEY", unavailable=True
                )
            elif status == 404:
                raise self._error(self._missing(told), unavailable=True)
            else:
                later = _LATER if status in (408, 500, 502, 504) else None
                raise self._error(
                    f"HTTP {status}: {told}", unavailable=status >= 500 or status == 408, retry_after=later
                )
        raise self._error("gave no usable answer after several attempts", unavailable=True)

    def _send(self, body: dict[str, Any], texts: int, end: float | None) -> tuple[int, str | None, bytes]:
        import httpx

        left = self._timeout if end is None else min(self._timeout, end - time.monotonic())
        if left <= 0:
            raise self._error("no answer within the time limit", unavailable=True, retry_after=_LATER)
        # Strict UTF-8: a lone surrogate becomes "?" instead of failing the batch.
        content = json.dumps(body, ensure_ascii=False).encode("utf-8", "replace")
        headers = {"Content-Type": "application/json"}
        if self._key is not None:
            headers["Authorization"] = f"Bearer {self._key}"
        limit = (1 + texts) * _BYTES_PER_TEXT
        try:
            answer = self._connections.post(self._url, content, headers, seconds=left, limit=limit)
        except OutOfTime as error:
            self._out_of_time()
            raise self._error(str(error), unavailable=True, retry_after=_LATER) from None
        except Unacceptable as error:
            raise self._error(f"{error}, for {texts} texts") from None
        except httpx.TimeoutException:
            self._out_of_time()
            raise self._error(
                f"no answer within {left:.1f} s", unavailable=True, retry_after=_LATER
            ) from None
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

    def _error(
        self, what: str, *, unavailable: bool = False, retry_after: float | None = None
    ) -> EmbedderError:
        error = super()._error(what, unavailable=unavailable, retry_after=retry_after)
        where = self._spec if self._shown is None else f"{self._spec} at {self._shown}"
        error.args = (self._masked(f"{where}: {what}"),)
        return error


def address(url: str, example: str) -> SplitResult:
    """The parts of a server's address.

    Raises:
        InvalidInput: It is no URL of a server.
    """
    try:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError
        parts.port  # noqa: B018 - raises when it is no number
    except ValueError:
        raise InvalidInput(f"embedder_url: is not a URL like {example}", field="embedder_url") from None
    return parts


def shown(parts: SplitResult) -> str:
    """An address without what may be secret in it."""
    return parts._replace(netloc=parts.netloc.rpartition("@")[2], query="", fragment="").geturl()


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
            seconds = float(retry_after)
            if seconds == seconds:  # not NaN
                return max(0.0, seconds)
        except ValueError:
            pass
        try:
            return max(0.0, parsedate_to_datetime(retry_after).timestamp() - time.time())
        except (ValueError, TypeError, OverflowError):
            pass
    return 0.5 * float(2**attempt)
