"""What an embedder is, and the checks every vector passes before it is stored or searched."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, TypeGuard, runtime_checkable

from otolith.exceptions import EmbedderError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Vector: TypeAlias = NDArray[np.float32]
    Row: TypeAlias = Vector | str

__all__ = ["Embedder", "RowEmbedder", "document_rows", "fingerprint", "query_vector"]


class Misfit(str):
    """Why a row cannot be used, when its width is the reason."""

    __slots__ = ()


MISCOUNTED = "is missing: the embedder returned {} vectors for one text"


class Embedder(Protocol):
    """Turns texts into vectors.

    Attributes:
        dim: Width of the vectors; None while it is not known.
        fingerprint: Names everything the vectors depend on: model, revision, prompts. Vectors of two
            fingerprints are never compared.
    """

    @property
    def dim(self) -> int | None:
        """Width of the vectors; None while it is not known."""
        ...

    @property
    def fingerprint(self) -> str:
        """What vectors are stored under."""
        ...

    def embed_documents(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """One row for each text."""
        ...

    def embed_query(self, text: str) -> NDArray[np.float32]:
        """The vector to search with."""
        ...


@runtime_checkable
class RowEmbedder(Protocol):
    """What our adapters offer beyond `Embedder`: a time limit, and a reason where a text has no vector."""

    def embed_rows(self, texts: Sequence[str], *, timeout: float | None = None) -> Sequence[Any]:
        """For each text a vector, or a str that says why there is none."""
        ...

    def query_row(self, text: str, *, timeout: float | None = None) -> Any:
        """A vector, or a str that says why there is none."""
        ...


def fingerprint(spec: str, prompt: str) -> str:
    """What vectors are stored under: the spec first, so that `auto` can rebuild the embedder from it.

    Args:
        spec: For instance `openai:bge-m3`.
        prompt: Name of the prompt form.
    """
    from otolith._core import EMBEDDED_TEXT_VERSION

    return f"{spec}|prompt={prompt}|text=v{EMBEDDED_TEXT_VERSION}"


def spec_of(mark: str) -> str:
    """The spec a fingerprint starts with."""
    return mark.partition("|")[0]


def document_rows(embedder: Embedder, texts: Sequence[str], *, timeout: float | None = None) -> list[Row]:
    """Unit vectors for texts that are to be stored.

    Args:
        embedder: Any embedder.
        texts: The texts.
        timeout: Seconds for all of them together, kept by embedders that can.

    Returns:
        For each text a float32 row of length 1, or the reason why its vector cannot be used.

    Raises:
        EmbedderError: The embedder failed as a whole; nothing is wrong with the texts.
    """
    end = None if timeout is None else time.monotonic() + timeout
    raw = _answer(embedder, texts, end)
    if len(raw) != len(texts):
        # Which vector belongs to which text is unknown: ask one by one.
        if len(texts) == 1:
            return [MISCOUNTED.format(len(raw))]
        raw = []
        for text in texts:
            alone = _answer(embedder, [text], end)
            raw.append(alone[0] if len(alone) == 1 else MISCOUNTED.format(len(alone)))
    width = _width(embedder)
    rows: list[Row] = []
    for one in raw:
        row = checked_row(one, width)
        if width is None and not isinstance(row, str):
            width = len(row)
        rows.append(row)
    return rows


def fitting(rows: list[Row], name: str) -> list[Row]:
    """The rows, unless every one has another width than it should.

    Raises:
        EmbedderError: It is the embedder that changed and no text that is bad; they can be embedded later.
    """
    first = rows[0] if rows else None
    if isinstance(first, Misfit) and all(isinstance(row, Misfit) for row in rows):
        raise EmbedderError(
            f"{name}: every vector {first}; it has become another model under the same name: bring back the "
            "former one, or give this one another name and say `otolith reindex`",
            embedder=name,
        )
    return rows


def query_vector(embedder: Embedder, text: str, *, timeout: float | None = None) -> Vector:
    """The unit vector to search with.

    Args:
        embedder: Any embedder.
        text: The question.
        timeout: Seconds, kept by embedders that can.

    Raises:
        EmbedderError: It failed, or its answer is not a usable vector.
    """
    with guarded(lambda: _name(embedder)):
        if isinstance(embedder, RowEmbedder):
            raw = embedder.query_row(text, timeout=timeout)
        else:
            raw = embedder.embed_query(text)
    row = checked_row(raw, _width(embedder))
    if isinstance(row, str):
        raise EmbedderError(f"{_name(embedder)}: the query vector {row}", embedder=_name(embedder))
    return row


def checked_row(raw: object, width: int | None) -> Row:
    """A float32 row of length 1, or why `raw` cannot be one.

    Args:
        raw: What the embedder gave; a str is its own reason.
        width: Expected width, if known.
    """
    import numpy as np

    if isinstance(raw, str):
        return raw
    if raw is None:
        return "is missing"
    try:
        row = np.asarray(raw, dtype=np.float64)
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException:  # noqa: BLE001 - the objects in it are anybody's code
        return "is not a list of numbers"
    if row.ndim != 1 or row.size == 0:
        return f"has the shape {row.shape}, not one row of numbers"
    if width is not None and row.size != width:
        return misfit(row.size, width)
    if not np.isfinite(row).all():
        return "holds NaN or infinity"
    # Scaled by the largest entry first, so that neither tiny nor huge rows lose their length.
    largest = float(np.abs(row).max())
    if largest == 0.0:
        return "is all zeros"
    row = row / largest
    unit: Vector = (row / np.linalg.norm(row)).astype(np.float32)
    return unit


def misfit(found: int, expected: int) -> Misfit:
    """The reason for a row of another width."""
    return Misfit(f"has {found} dimension{'' if found == 1 else 's'}, expected {expected}")


def stack(rows: Iterable[Row], width: int | None) -> NDArray[np.float32]:
    """Rows as a matrix; a row that is a reason becomes NaN, which every check refuses."""
    import numpy as np

    given = list(rows)
    if width is None:
        width = next((len(row) for row in given if not isinstance(row, str)), 0)
    matrix = np.full((len(given), width), np.nan, dtype=np.float32)
    for at, row in enumerate(given):
        if not isinstance(row, str):
            matrix[at] = row
    return matrix


def _answer(embedder: Embedder, texts: Sequence[str], end: float | None) -> list[Any]:
    timeout = None if end is None else max(0.0, end - time.monotonic())
    with guarded(lambda: _name(embedder)):
        if isinstance(embedder, RowEmbedder):
            return list(embedder.embed_rows(texts, timeout=timeout))
        return list(embedder.embed_documents(texts))


@contextmanager
def guarded(name: Callable[[], str]) -> Iterator[None]:
    """Turns whatever an embedder raises into `EmbedderError`; only what ends the program goes through.

    A panic of native code is no `Exception`, and a text that is stored must not lose its id to one.

    Args:
        name: Gives the embedder's name for the message.
    """
    try:
        yield
    except (EmbedderError, KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:
        told = f"failed with {type(error).__name__}: {error}".removesuffix(": ")
        raise EmbedderError(f"{name()}: {told}", embedder=name()) from error


def _width(embedder: Embedder) -> int | None:
    with guarded(lambda: _name(embedder)):
        width = embedder.dim
    return width if is_width(width) else None


def is_width(given: object) -> TypeGuard[int]:
    """Whether this is the width of a vector."""
    return isinstance(given, int) and not isinstance(given, bool) and given > 0


def _name(embedder: Embedder) -> str:
    try:
        return spec_of(embedder.fingerprint)
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException:  # noqa: BLE001 - the name is for a message about another failure
        return type(embedder).__qualname__
