"""Hashed n-grams: deterministic vectors without a model, for tests and demonstrations only.

Texts with the same words are near each other; meaning is not seen. Quality must never be judged with it.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Sequence
from hashlib import blake2b
from itertools import pairwise
from typing import TYPE_CHECKING

from otolith.exceptions import InvalidInput

from .base import fingerprint, stack

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from .base import Row

__all__ = ["HashEmbedder"]

_WORD = re.compile(r"\w+")
_CJK = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af\U00020000-\U0003ffff]")


class HashEmbedder:
    """A bag of words, their trigrams and CJK pairs, hashed into a fixed width.

    Args:
        dim: Width, 8 to 4096.
    """

    def __init__(self, dim: int) -> None:
        if not 8 <= dim <= 4096:
            raise InvalidInput(f"embedder: hash:{dim} must have a width of 8 to 4096", field="embedder")
        self._dim = dim

    @property
    def dim(self) -> int:
        """Width of the vectors."""
        return self._dim

    @property
    def fingerprint(self) -> str:
        """What vectors are stored under."""
        return fingerprint(f"hash:{self._dim}", "none")

    def embed_documents(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """One row for each text."""
        return stack((self._row(text) for text in texts), self._dim)

    def embed_query(self, text: str) -> NDArray[np.float32]:
        """The vector to search with; the same as that of a stored text."""
        row: NDArray[np.float32] = self.embed_documents([text])[0]
        return row

    def embed_rows(self, texts: Sequence[str], *, timeout: float | None = None) -> list[Row]:
        """For each text a vector, or why there is none. The time limit is never needed."""
        return [self._row(text) for text in texts]

    def query_row(self, text: str, *, timeout: float | None = None) -> Row:
        """A vector, or why there is none."""
        return self._row(text)

    def _row(self, text: str) -> Row:
        import numpy as np

        row = np.zeros(self._dim, dtype=np.float32)
        for feature, weight in _features(text):
            digest = blake2b(feature.encode("utf-8", "replace"), digest_size=8).digest()
            number = int.from_bytes(digest, "little")
            row[(number >> 1) % self._dim] += weight if number & 1 else -weight
        return row if row.any() else "has no words to hash"

    def __repr__(self) -> str:
        return f"HashEmbedder({self._dim})"


def _features(text: str) -> Iterator[tuple[str, float]]:
    for word in _WORD.findall(unicodedata.normalize("NFKC", text).casefold()):
        characters = _CJK.findall(word)
        if characters:
            yield from ((one, 1.0) for one in characters)
            yield from ((a + b, 0.5) for a, b in pairwise(characters))
        else:
            yield word, 1.0
            padded = f"#{word}#"
            yield from ((padded[at : at + 3], 0.25) for at in range(len(padded) - 2))
