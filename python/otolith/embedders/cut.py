"""Any embedder with its vectors cut to their first numbers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from otolith.exceptions import EmbedderError

from .base import Embedder, checked_row, document_rows, query_vector, stack

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from .base import Row

__all__ = ["CutEmbedder"]


class CutEmbedder:
    """An embedder of somebody else's whose vectors are cut and brought to length 1 again.

    Args:
        inner: The embedder.
        dim: Numbers that are kept.
    """

    def __init__(self, inner: Embedder, dim: int) -> None:
        self._inner = inner
        self._dim = dim
        self._fingerprint = f"{inner.fingerprint}|dim={dim}"

    @property
    def dim(self) -> int:
        """Width of the vectors."""
        return self._dim

    @property
    def fingerprint(self) -> str:
        """What vectors are stored under."""
        return self._fingerprint

    def embed_documents(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """One row for each text; NaN where there is none."""
        return stack(self.embed_rows(texts), self._dim)

    def embed_query(self, text: str) -> NDArray[np.float32]:
        """The vector to search with."""
        row = self.query_row(text)
        if isinstance(row, str):
            raise EmbedderError(f"{self._fingerprint}: the query vector {row}", embedder=self._fingerprint)
        return row

    def embed_rows(self, texts: Sequence[str], *, timeout: float | None = None) -> list[Row]:
        """For each text a vector, or why there is none."""
        return [self._finished(row) for row in document_rows(self._inner, texts, timeout=timeout)]

    def query_row(self, text: str, *, timeout: float | None = None) -> Row:
        """A vector to search with, or why there is none."""
        return self._finished(query_vector(self._inner, text, timeout=timeout))

    def _finished(self, row: Row) -> Row:
        if isinstance(row, str):
            return row
        if len(row) < self._dim:
            raise EmbedderError(
                f"{self._inner.fingerprint}: gives {len(row)} numbers, fewer than dim={self._dim}; ask for "
                "fewer or none",
                embedder=self._fingerprint,
            )
        return checked_row(row[: self._dim], self._dim)

    def __repr__(self) -> str:
        return f"CutEmbedder({self._inner!r}, {self._dim})"
