"""What models want written before a text. Without it e5, nomic and their kin lose much of their quality."""

from __future__ import annotations

import re
from typing import NamedTuple
from urllib.parse import quote, unquote

__all__ = ["PROMPTS", "Prompt", "check_form", "custom", "prompt_for", "prompt_of"]


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
    "bge-zh": Prompt("", "为这个句子生成表示以用于检索相关文章："),
    "qwen3": Prompt("", _TASK),
    "gemma": Prompt("title: none | text: ", "task: search result | query: "),
    "query": Prompt("", "query: "),
}
"""Prompt forms by the name that goes into fingerprints. Changing the words of one needs a new name."""

# The first that matches the model id decides. A home keeps the form its vectors were made with, so a rule
# for a model that had none changes nothing for homes that are there.
_RULES = (
    (re.compile(r"(^|[^a-z0-9])e5[-_].*instruct"), "e5-instruct"),
    (re.compile(r"gte[-_]qwen2.*instruct"), "e5-instruct"),
    (re.compile(r"(^|[^a-z0-9])e5([-_:]|$)"), "e5"),
    (re.compile(r"nomic[-_]embed[-_]text"), "nomic"),
    (re.compile(r"modernbert[-_]embed"), "nomic"),
    (re.compile(r"(^|[^a-z0-9])bge[-_](small|base|large)[-_]en"), "bge-en"),
    # Their later versions, v1.5, are made to do without.
    (re.compile(r"(^|[^a-z0-9])bge[-_](small|base|large)[-_]zh(?![-_]?v1\.5)"), "bge-zh"),
    (re.compile(r"mxbai[-_]embed[-_]large"), "bge-en"),
    (re.compile(r"snowflake[-_]arctic[-_]embed(2|.*v2)"), "query"),
    (re.compile(r"snowflake[-_]arctic[-_]embed"), "bge-en"),
    (re.compile(r"qwen3[-_]embedding"), "qwen3"),
    (re.compile(r"embedding[-_]?gemma"), "gemma"),
)

_LONGEST = 1000


def prompt_for(model: str) -> str:
    """Name of the prompt form a model was trained with; `none` when it needs none or is not known.

    Args:
        model: Model id as servers name it, for instance `intfloat/multilingual-e5-small`.
    """
    name = model.lower()
    return next((form for rule, form in _RULES if rule.search(name)), "none")


def custom(document: str, query: str) -> str:
    """The form with these words, as it stands in specs and fingerprints; a known form under its name.

    Args:
        document: What is written before a text that is stored.
        query: What is written before a question.
    """
    same = (name for name, prompt in PROMPTS.items() if prompt == (document, query))
    return next(same, None) or f"{quote(document, safe='')},{quote(query, safe='')}"


def check_form(form: object) -> str:
    """A prompt form: a name of `PROMPTS`, or the two texts percent-encoded with a comma between them.

    Args:
        form: As in a spec; or a pair of texts, document first.

    Raises:
        ValueError: It is none; says what was expected.
    """
    if isinstance(form, tuple) and len(form) == 2 and all(isinstance(one, str) for one in form):
        form = custom(*form)
    if isinstance(form, str) and form in PROMPTS:
        return form
    if isinstance(form, str) and form.count(",") == 1 and len(form) <= _LONGEST:
        # Brought into one shape: the same words must not make two fingerprints.
        return custom(*(unquote(part) for part in form.split(",")))
    raise ValueError(f"expected a prompt form of {', '.join(PROMPTS)}, or DOCUMENT,QUERY percent-encoded")


def prompt_of(form: str) -> Prompt:
    """The words of a form that `check_form` let pass."""
    if form in PROMPTS:
        return PROMPTS[form]
    document, _, query = form.partition(",")
    return Prompt(unquote(document), unquote(query))
