"""What adapters that name a model share: prompts, width, and the checks of each row."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from otolith.exceptions import EmbedderError, EmbedderUnavailable

from .base import checked_row, fingerprint, misfit, stack
from .prompts import prompt_for, prompt_of

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from .base import Row
    from .naming import Name

__all__ = ["ModelEmbedder", "failure"]


class ModelEmbedder:
    """An embedder that is a named model somewhere. An adapter says how texts become rows.

    Args:
        kind: The adapter, as in specs.
        name: The model and what was asked for with it.
        form: Prompt form if none was asked for; default: the one that follows from the model's id.
        revision: Which version of the model it is, if that is known; part of the fingerprint.
    """

    def __init__(self, kind: str, name: Name, *, form: str | None = None, revision: str = "") -> None:
        self._model = name.model
        self._spec = f"{kind}:{name}"
        self._form = name.prompt or form or prompt_for(name.model)
        self._prompt = prompt_of(self._form)
        self._revision = revision
        self._cut = name.dim
        self._width: int | None = None

    @property
    def dim(self) -> int | None:
        """Width of the vectors; pinned by the first answer unless it was asked for."""
        return self._width if self._cut is None else self._cut

    @property
    def fingerprint(self) -> str:
        """What vectors are stored under. Where the model lies or runs is not part of it: it may move."""
        mark = fingerprint(self._spec, self._form)
        return f"{mark}|revision={self._revision}" if self._revision else mark

    def embed_documents(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """One row for each text; NaN where a text has no vector."""
        return stack((checked_row(row, self.dim) for row in self.embed_rows(texts)), self.dim)

    def embed_query(self, text: str) -> NDArray[np.float32]:
        """The vector to search with."""
        row = checked_row(self.query_row(text), self.dim)
        if isinstance(row, str):
            raise EmbedderError(f"{self._spec}: the query vector {row}", embedder=self._spec)
        return row

    def embed_rows(self, texts: Sequence[str], *, timeout: float | None = None) -> list[Row]:
        """For each text a vector, or why there is none.

        Args:
            texts: The texts.
            timeout: Seconds for all of them.

        Raises:
            EmbedderError: The embedder failed as a whole.
        """
        return self._made([self._prompt.document + text for text in texts], timeout, query=False)

    def query_row(self, text: str, *, timeout: float | None = None) -> Row:
        """A vector to search with, or why there is none.

        Args:
            text: The question.
            timeout: Seconds.

        Raises:
            EmbedderError: The embedder failed as a whole.
        """
        return self._made([self._prompt.query + text], timeout, query=True)[0]

    def close(self) -> None:
        """Gives back what is held; it is taken again when needed."""

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._spec!r})"

    # -- for adapters -------------------------------------------------------------------------------------

    def _rows(self, texts: list[str], end: float | None, *, query: bool) -> list[Row]:
        """Rows for texts that have their prompts, each passed through `_finished`."""
        raise NotImplementedError

    def _made(self, texts: list[str], timeout: float | None, *, query: bool) -> list[Row]:
        end = None if timeout is None else time.monotonic() + timeout
        return self._rows(texts, end, query=query) if texts else []

    def _finished(self, raw: Any) -> Row:
        """A row of length 1 and of the width that was asked for, or why there is none."""
        row = checked_row(raw, None)
        if isinstance(row, str):
            return row
        if self._width is None and (self._cut is None or len(row) != self._cut):
            self._width = len(row)
        if len(row) == self._cut:
            return row
        if len(row) != self._width:
            return misfit(len(row), self._width or 0)
        if self._cut is None:
            return row
        if len(row) < self._cut:
            self._width = None
            raise self._error(f"gives {len(row)} numbers, fewer than dim={self._cut}; ask for fewer or none")
        # The first numbers say most in models that were trained for it (Matryoshka representation learning,
        # arXiv:2205.13147); cosines need the length 1 again.
        return checked_row(row[: self._cut], self._cut)

    def _error(
        self, what: str, *, unavailable: bool = False, retry_after: float | None = None
    ) -> EmbedderError:
        return failure(self._spec, what, unavailable=unavailable, retry_after=retry_after)


def failure(
    spec: str, what: str, *, unavailable: bool = False, retry_after: float | None = None
) -> EmbedderError:
    """An error of an embedder, by its spec."""
    text = f"{spec}: {what}"
    if unavailable:
        return EmbedderUnavailable(text, embedder=spec, retry_after=retry_after)
    return EmbedderError(text, embedder=spec)
