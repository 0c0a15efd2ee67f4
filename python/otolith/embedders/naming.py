"""How a model is named in a spec: `KIND:MODEL?prompt=FORM&dim=N`, and how a fingerprint says it again.

Imports nothing but the standard library: settings are checked with it.
"""

from __future__ import annotations

import os
from typing import Final, NamedTuple

from .prompts import check_form

__all__ = ["ALIASES", "LARGEST_DIM", "MODEL_KINDS", "Name", "is_path", "kind_of", "model_of", "named"]

MODEL_KINDS: Final = ("openai", "ollama", "fastembed", "sentence-transformers", "model2vec")
"""Kinds of specs that name a model."""
ALIASES: Final = {"st": "sentence-transformers"}
LARGEST_DIM: Final = 65_536
_OPTIONS: Final = ("prompt", "dim", "keep_alive")


class Name(NamedTuple):
    """A model and what was asked for with it.

    Attributes:
        model: Id of the model, or a path.
        prompt: Prompt form; None for the one that follows from the model.
        dim: Width that vectors are cut to; None for the model's own.
        keep_alive: How long Ollama keeps the model loaded; says nothing about its vectors.
    """

    model: str
    prompt: str | None = None
    dim: int | None = None
    keep_alive: str | None = None

    def __str__(self) -> str:
        """As it stands in specs and fingerprints: what vectors do not depend on is left out."""
        options = [f"prompt={self.prompt}"] if self.prompt is not None else []
        options += [f"dim={self.dim}"] if self.dim is not None else []
        return f"{self.model}?{'&'.join(options)}" if options else self.model


def kind_of(spec: str) -> str:
    """The kind of a spec, aliases resolved."""
    kind = spec.partition(":")[0]
    return ALIASES.get(kind, kind)


def model_of(spec: str) -> str | None:
    """The model a spec names, None if it names none."""
    kind, _, rest = spec.partition(":")
    if ALIASES.get(kind, kind) not in MODEL_KINDS:
        return None
    try:
        return named(rest).model
    except ValueError:
        return None


def named(rest: str) -> Name:
    """What follows the kind in a spec.

    Args:
        rest: For instance `bge-m3?dim=256`. A `?` that no option follows belongs to the model's name.

    Raises:
        ValueError: Says what was expected.
    """
    starts = [at for name in _OPTIONS if (at := rest.find(f"?{name}=")) >= 0]
    at = min(starts, default=len(rest))
    model = rest[:at]
    if not model.strip():
        raise ValueError("expected the name of a model")
    given: dict[str, str] = {}
    for part in rest[at + 1 :].split("&") if starts else ():
        name, _, value = part.partition("=")
        if name not in _OPTIONS or name in given or not value:
            raise ValueError(f"expected {', '.join(f'{one}=' for one in _OPTIONS)} after the ?, each once")
        given[name] = value
    prompt = given.get("prompt")
    return Name(
        model,
        prompt if prompt is None else check_form(prompt),
        None if "dim" not in given else checked_dim(given["dim"]),
        given.get("keep_alive"),
    )


def checked_dim(value: object) -> int:
    """A width that vectors may be cut to.

    Raises:
        ValueError: It is no number, or out of range.
    """
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) < 9:
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= LARGEST_DIM:
        raise ValueError(f"expected a dim from 1 to {LARGEST_DIM}")
    return value


def is_path(model: str) -> bool:
    """Whether a model is named by the directory it lies in; ids of the Hugging Face hub never look so."""
    return model.startswith(("/", "~", f".{os.sep}", f"..{os.sep}"))
