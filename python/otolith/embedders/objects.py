"""Embedders that are somebody's Python object: `python:module:object`, LangChain's shape, plain functions."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from otolith.exceptions import EmbedderError, EmbedderUnavailable, InvalidInput

from .base import MISCOUNTED, Embedder, checked_row, fingerprint, guarded, is_width, stack

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = ["ObjectEmbedder", "load", "wrap"]

_NONE_SUCH: Final = object()


class ObjectEmbedder:
    """Gives an object or a function the shape of an embedder.

    Its fingerprint names where it was defined and, if it has one, its `model` or `model_name`. Give it a
    `fingerprint` attribute when its vectors depend on more than that.

    Args:
        target: An object with `embed_documents` (and usually `embed_query`), or a function from a list of
            texts to a list of vectors.
        spec: How it was named, for instance `python:mine:embed`.
    """

    def __init__(self, target: object, *, spec: str | None = None) -> None:
        self._target = target
        own = _attribute(target, "fingerprint")
        self._fingerprint = (
            own
            if isinstance(own, str) and own.strip()
            else fingerprint((spec or f"object:{_where(target)}") + _model(target), "own")
        )
        width = _attribute(target, "dim")
        self._dim = width if is_width(width) else None

    @property
    def dim(self) -> int | None:
        """Width of the vectors; pinned by the first one."""
        return self._dim

    @property
    def fingerprint(self) -> str:
        """What vectors are stored under."""
        return self._fingerprint

    def embed_documents(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """One row for each text; NaN where there is none."""
        return stack((checked_row(row, self._dim) for row in self.embed_rows(texts)), self._dim)

    def embed_query(self, text: str) -> NDArray[np.float32]:
        """The vector to search with."""
        row = checked_row(self.query_row(text), self._dim)
        if isinstance(row, str):
            raise EmbedderError(f"{self._fingerprint}: the query vector {row}", embedder=self._fingerprint)
        return row

    def embed_rows(self, texts: Sequence[str], *, timeout: float | None = None) -> list[Any]:
        """For each text what the object gives. It runs in this process: the time limit cannot be kept."""
        call = getattr(self._target, "embed_documents", self._target)
        rows = self._run(call, list(texts))
        if rows is None or isinstance(rows, (str, bytes)):
            raise EmbedderError(
                f"{self._fingerprint}: returned {type(rows).__name__} for a list of texts; "
                "it must return a list of vectors",
                embedder=self._fingerprint,
            )
        given: list[Any] = self._run(list, rows)
        for row in given if self._dim is None else ():
            good = checked_row(row, None)
            if not isinstance(good, str):
                self._dim = len(good)
                break
        return given

    def query_row(self, text: str, *, timeout: float | None = None) -> Any:
        """What the object gives for a question; it is treated as a text when it knows no questions."""
        call = getattr(self._target, "embed_query", None)
        if callable(call):
            return self._run(call, text)
        rows = self.embed_rows([text])
        return rows[0] if len(rows) == 1 else MISCOUNTED.format(len(rows))

    def _run(self, call: Any, argument: object) -> Any:
        with guarded(lambda: self._fingerprint):
            return call(argument)

    def __repr__(self) -> str:
        return f"ObjectEmbedder({self._fingerprint!r})"


def wrap(target: object, *, spec: str | None = None) -> Embedder:
    """An embedder from what people have: the protocol itself, LangChain's shape, or a function of texts.

    Args:
        target: The object.
        spec: How it was named, if it was; becomes part of the fingerprint.

    Raises:
        InvalidInput: It can neither embed nor be called.
    """
    if isinstance(target, type):
        raise InvalidInput(
            f"embedder: {target.__qualname__} is a class; pass an instance of it", field="embedder"
        )
    documents = _attribute(target, "embed_documents")
    if callable(documents) and callable(_attribute(target, "embed_query")):
        mark, width = _attribute(target, "fingerprint"), _attribute(target, "dim", _NONE_SUCH)
        if isinstance(mark, str) and mark.strip() and (width is None or is_width(width)):
            return target  # type: ignore[return-value]
    if callable(documents) or callable(target):
        return ObjectEmbedder(target, spec=spec)
    raise InvalidInput(
        f"embedder: a {type(target).__name__} cannot embed; give a spec such as 'openai:MODEL', an object "
        "with embed_documents and embed_query, or a function from a list of texts to a list of vectors",
        field="embedder",
    )


def load(path: str) -> Embedder:
    """The embedder behind `module:object`: an object, a class, a factory without arguments, or a function.

    Args:
        path: What follows `python:`.

    Raises:
        InvalidInput: The path has not the form `module:object`.
        EmbedderUnavailable: It cannot be imported or made.
    """
    spec = f"python:{path}"
    module, colon, name = path.partition(":")
    if not colon or not module.strip() or not name.strip():
        raise InvalidInput(f"embedder: {spec!r} must have the form python:module:object", field="embedder")
    try:
        found: Any = importlib.import_module(module)
        for part in name.split("."):
            found = getattr(found, part)
        if isinstance(found, type) or _is_factory(found):
            found = found()
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:  # a module may raise anything when it is imported
        raise EmbedderUnavailable(
            f"{spec}: {type(error).__name__}: {error}; check the name, and that the module can be imported",
            embedder=spec,
        ) from error
    return wrap(found, spec=spec)


def _is_factory(found: object) -> bool:
    """A function that can be called with nothing makes the embedder; one that needs an argument is one."""
    if callable(_attribute(found, "embed_documents")) or not callable(found):
        return False
    try:
        inspect.signature(found).bind()
    except (TypeError, ValueError):
        return False
    return True


def _attribute(target: object, name: str, default: object = None) -> Any:
    """An attribute; reading one may run anybody's code.

    Raises:
        InvalidInput: Reading it failed.
    """
    try:
        return getattr(target, name, default)
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:
        raise InvalidInput(
            f"embedder: its {name} cannot be read: {type(error).__name__}: {error}".removesuffix(": "),
            field="embedder",
        ) from error


def _where(target: object) -> str:
    named = target if hasattr(target, "__qualname__") else type(target)
    return f"{getattr(named, '__module__', '?')}.{getattr(named, '__qualname__', '?')}"


def _model(target: object) -> str:
    for name in ("model", "model_name"):
        value = _attribute(target, name)
        if isinstance(value, str) and value.strip():
            return f"@{value.strip()}"
    return ""
