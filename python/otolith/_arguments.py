"""Arguments of `Memory`, checked before anything is done."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ._core import Coverage, Episode
from ._fields import episode_fields, record_fields, shown
from ._files import absolute
from .exceptions import InvalidInput, OtolithError
from .records import record_id

if TYPE_CHECKING:
    from ._types import VectorLike
    from .config import Settings

_LARGEST_BATCH = 1_000_000
_LONGEST_PATIENCE = 86_400


def home_path(home: object) -> str:
    """The home as an absolute path, so that a later change of directory does not move it."""
    if not isinstance(home, (str, os.PathLike)):
        raise InvalidInput(f"home: give a path, not {type(home).__name__}", field="home")
    path = os.fspath(home)
    if not isinstance(path, str) or not path.strip() or "\0" in path:
        raise InvalidInput(f"home: {path!r} is not a path", field="home")
    return absolute("home", path)


def settings_for(home: str | None, config: Settings | Mapping[str, Any] | None) -> Settings:
    """Resolved settings, from what `open` was given."""
    from .config import Settings, resolve

    if isinstance(config, Settings):
        return config
    if config is not None and not isinstance(config, Mapping):
        raise InvalidInput(f"config: give a mapping of settings, not {type(config).__name__}", field="config")
    return resolve(home=home, flags=config)


def embedder_spec(spec: str) -> str:
    """An embedder spec of usable form."""
    from .config import checked_embedder

    return checked_embedder(spec)


def record_and_vector(one: object) -> tuple[dict[str, Any], VectorLike | None]:
    """Checked fields of one record of `remember_many`, and its vector."""
    if isinstance(one, Episode):
        return {**record_fields(episode_fields(one)), "id": one.id}, None
    if isinstance(one, str):
        return record_fields({"summary": one}), None
    if not isinstance(one, Mapping):
        raise InvalidInput(
            f"episode: give an Episode, dict or str, not {type(one).__name__}", field="episode"
        )
    given = dict(one)
    vector = given.pop("vector", None)
    id = given.pop("id", None)
    checked = record_fields(given)
    if id is not None:
        checked["id"] = record_id(id)
    return checked, vector


def length_of(given: object) -> int | None:
    """How many there are, if that is known beforehand."""
    try:
        return len(given)  # type: ignore[arg-type]
    except TypeError:
        return None


def as_ours(error: Exception | None) -> OtolithError:
    """An error of one record of a batch, as one of this package."""
    return error if isinstance(error, OtolithError) else OtolithError(str(error))


def to_embed(coverage: Coverage) -> int:
    """Records that `embed_pending` would make vectors for."""
    return coverage.pending + coverage.stale


def check_embed(embed: object) -> None:
    """Refuses what `embed` cannot be."""
    if not isinstance(embed, str) or embed not in ("now", "later"):
        raise InvalidInput(f"embed: {shown(embed)} is not one of now, later", field="embed")


def check_progress(progress: object) -> None:
    """Refuses what cannot be called."""
    if progress is not None and not callable(progress):
        raise InvalidInput(f"progress: give a function, not {type(progress).__name__}", field="progress")


def check_patience(value: object) -> None:
    """Refuses what is no time to wait."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= _LONGEST_PATIENCE:
        raise InvalidInput(
            f"patience: {shown(value)} is not a number of seconds from 0 to {_LONGEST_PATIENCE}",
            field="patience",
        )


def check_limit(value: object) -> None:
    """Refuses what is no number of records."""
    if value is not None and (isinstance(value, bool) or not isinstance(value, int) or value < 0):
        raise InvalidInput(f"limit: {shown(value)} is not a number from 0 up", field="limit")


def check_batch(value: object) -> None:
    """Refuses sizes of a batch that cannot be."""
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= _LARGEST_BATCH:
        raise InvalidInput(f"batch: {shown(value)} is not a number from 1 to {_LARGEST_BATCH}", field="batch")
