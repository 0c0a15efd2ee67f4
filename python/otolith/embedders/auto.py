"""What `embedder = "auto"` finds when nothing is set and the home has no embedder yet: a model that is there.

Only small models that are known, complete, in a cache of this user, and whose library is installed. They are
looked up by path: nothing is imported, nothing is downloaded, no server is asked. sentence-transformers is
left out, since importing torch would make every call of the command line seconds long; it is for those who
ask for it.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final, NamedTuple

from .fastembed import KNOWN, lookup
from .local import fastembed_cache, hub_cache, installed, snapshot

__all__ = ["Found", "find", "may_take"]

_STATIC: Final = (
    "minishlab/potion-multilingual-128M",
    "minishlab/potion-retrieval-32M",
    "minishlab/potion-base-32M",
    "minishlab/potion-base-8M",
)
_STATIC_FILES: Final = ("model.safetensors", "tokenizer.json", "config.json")


class Found(NamedTuple):
    """What was looked at.

    Attributes:
        spec: Of the model to use, None if there is none.
        where: The directory it lies in.
        tried: For each library what came of it.
    """

    spec: str | None
    where: Path | None
    tried: tuple[str, ...]


def find() -> Found:
    """The first model that may be used, and what was looked at on the way."""
    tried: list[str] = []
    for library, caches, models in (
        ("fastembed", (fastembed_cache(), hub_cache()), tuple(KNOWN)),
        ("model2vec", (hub_cache(),), _STATIC),
    ):
        if not installed(library):
            tried.append(f"{library}: not installed")
            continue
        strange = False
        for model in models:
            place = _place(library, model)
            if place is None:
                continue
            if not _is_ours(place):
                strange = True
                continue
            tried.append(f"{library}: {model} in {place}")
            return Found(f"{library}:{model}", place, tuple(tried))
        reason = "belongs to another user" if strange else "no small model that is known"
        tried.append(f"{library}: {reason}, in {' and '.join(str(one) for one in caches)}")
    return Found(None, None, tuple(tried))


def may_take(library: str, model: str, revision: str | None) -> bool:
    """Whether `find` could take a model by itself: then a home that nobody trusts may name it.

    Args:
        library: Such as `fastembed`.
        model: Its id.
        revision: As in `snapshot`.
    """
    if not installed(library):
        return False
    place = _place(library, model, revision)
    return place is not None and _is_ours(place)


def _place(library: str, model: str, revision: str | None = None) -> Path | None:
    """Where a model that is known lies."""
    if library == "fastembed" and model in KNOWN:
        return lookup(KNOWN[model], revision)
    if library == "model2vec" and model in _STATIC:
        return snapshot(hub_cache(), model, _STATIC_FILES, revision)
    return None


def _is_ours(place: Path) -> bool:
    """Whether nobody but this user or root can have put the model there: fastembed's cache lies in /tmp."""
    if not hasattr(os, "getuid"):
        return True
    owners = (os.getuid(), 0)
    try:
        # The directory of the version, that of the model, and the cache itself.
        return all(one.stat().st_uid in owners for one in (place, *list(place.parents)[:3]))
    except OSError:
        return False
