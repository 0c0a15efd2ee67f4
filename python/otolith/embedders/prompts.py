"""What models want written before a text. Without it e5, nomic and their kin lose much of their quality."""

from __future__ import annotations

import re
from typing import NamedTuple

__all__ = ["PROMPTS", "Prompt", "prompt_for"]


class Prompt(NamedTuple):
    """Words before texts that are stored and before questions."""

    document: str
    query: str


_TASK = "Instruct: Given a web search query, retrieve relevant passages that answer the query\nQuery:"

PROMPTS: dict[str, Prompt] = {
    "none": Prompt("", ""),
    "e5": Prompt("passage: ", "query: "),
    "e5-instruct": Prompt("", f"{_TASK} "),
    "nomic": Prompt("search_document: ", "search_query: "),
    "bge-en": Prompt("", "Represent this sentence for searching relevant passages: "),
    "qwen3": Prompt("", _TASK),
    "gemma": Prompt("title: none | text: ", "task: search result | query: "),
}
"""Prompt forms by the name that goes into fingerprints. Changing the words of one needs a new name."""

# The first that matches the model id decides.
_RULES = (
    (re.compile(r"(^|[^a-z0-9])e5[-_].*instruct"), "e5-instruct"),
    (re.compile(r"(^|[^a-z0-9])e5([-_:]|$)"), "e5"),
    (re.compile(r"nomic[-_]embed[-_]text"), "nomic"),
    (re.compile(r"(^|[^a-z0-9])bge[-_](small|base|large)[-_]en"), "bge-en"),
    (re.compile(r"mxbai[-_]embed[-_]large"), "bge-en"),
    (re.compile(r"qwen3[-_]embedding"), "qwen3"),
    (re.compile(r"embedding[-_]?gemma"), "gemma"),
)


def prompt_for(model: str) -> str:
    """Name of the prompt form a model was trained with; `none` when it needs none or is not known.

    Args:
        model: Model id as servers name it, for instance `intfloat/multilingual-e5-small`.
    """
    name = model.lower()
    return next((form for rule, form in _RULES if rule.search(name)), "none")
