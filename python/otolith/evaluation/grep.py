"""What a person with `grep` would find: the row that everything else is measured against."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

__all__ = ["Grep"]

_WORD = re.compile(r"[\w'-]+")
_HAN = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]")


class Grep:
    """Records by how many different words of the question they contain, case aside; then in their order.

    A question in Chinese, Japanese or Korean has no spaces: there each pair of characters is a word.

    Args:
        records: Fields of the records.
    """

    def __init__(self, records: Sequence[Mapping[str, Any]]) -> None:
        self._texts = [(str(record["key"]), _text(record)) for record in records]

    def find(self, query: str, k: int) -> list[str]:
        """The keys of the best `k` that contain any word."""
        words = _words(query)
        counted = [
            (-sum(word in text for word in words), place, key)
            for place, (key, text) in enumerate(self._texts)
        ]
        return [key for count, _, key in sorted(counted)[:k] if count < 0]


def _words(query: str) -> set[str]:
    words: set[str] = set()
    for word in _WORD.findall(query.casefold()):
        if _HAN.search(word) and len(word) > 1:
            words.update(word[at : at + 2] for at in range(len(word) - 1))
        else:
            words.add(word)
    return words


def _text(record: Mapping[str, Any]) -> str:
    parts = [record.get(name) or "" for name in ("title", "summary", "body", "actor")]
    parts.extend(
        part for name in ("tags", "key_decisions", "files_modified") for part in record.get(name) or ()
    )
    return "\n".join(map(str, parts)).casefold()
