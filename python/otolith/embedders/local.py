"""Models that lie on this machine: where caches are, which version is there, and loading on first use.

Nothing is ever downloaded. A model is looked up in the caches by path, and the library gets the directory it
lies in: libraries that are given a name ask the hub about it, and switching that off would take a variable of
the environment that holds for the whole process.
"""

from __future__ import annotations

import importlib.util
import os
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .model import ModelEmbedder, failure
from .naming import is_path

if TYPE_CHECKING:
    from otolith.exceptions import EmbedderError

    from .base import Row
    from .naming import Name

__all__ = ["LocalEmbedder", "fastembed_cache", "hub_cache", "installed", "snapshot"]

_BATCH = 32
_LATER = 5.0
# Of larger files the ends tell versions apart; reading hundreds of megabytes would take seconds.
_WHOLE = 1 << 20
_END = 1 << 16


def installed(module: str) -> bool:
    """Whether a module can be imported, without importing it."""
    try:
        return importlib.util.find_spec(module) is not None
    except (ImportError, ValueError):
        return False


def hub_cache() -> Path:
    """Where the Hugging Face hub keeps what was downloaded, as its documentation of `HF_HUB_CACHE` says."""
    for variable in ("HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE"):
        if given := os.environ.get(variable):
            return Path(given).expanduser()
    base = os.environ.get("HF_HOME")
    if not base:
        base = os.path.join(os.environ.get("XDG_CACHE_HOME") or "~/.cache", "huggingface")
    return Path(base).expanduser() / "hub"


def fastembed_cache() -> Path:
    """Where fastembed keeps its models: `FASTEMBED_CACHE_PATH`, else beside other temporary files."""
    if given := os.environ.get("FASTEMBED_CACHE_PATH"):
        return Path(given)
    # What `tempfile` would say, which takes 3 ms to import.
    named = (os.environ.get(variable) for variable in ("TMPDIR", "TEMP", "TMP"))
    return Path(next((one for one in named if one and os.path.isdir(one)), "/tmp")) / "fastembed_cache"


def snapshot(root: Path, repository: str, files: Iterable[str], revision: str | None = None) -> Path | None:
    """The directory with a downloaded version of a model.

    Args:
        root: A cache in the layout of the Hugging Face hub.
        repository: Such as `minishlab/potion-base-8M`.
        files: What must be there: a download may have been interrupted.
        revision: First characters of the version; default: what the branch `main` was when it was last asked.

    Returns:
        The directory, None if there is no such version or files of it are missing.
    """
    place = root / f"models--{repository.replace('/', '--')}"
    wanted = list(files)
    try:
        found = sorted(one.name for one in (place / "snapshots").iterdir() if one.is_dir())
        if revision is not None:
            found = [name for name in found if name.startswith(revision)]
        elif len(found) > 1:
            main = (place / "refs" / "main").read_text(encoding="ascii").strip()
            found = [name for name in found if name == main]
        if len(found) != 1:
            return None
        directory = place / "snapshots" / found[0]
        if all((directory / name).stat().st_size > 0 for name in wanted):
            return directory
    except (OSError, ValueError):
        pass
    return None


def digest(directory: Path) -> str:
    """Tells versions of a model in a directory apart: over names, sizes, and content or both ends of it."""
    from hashlib import blake2b  # loads OpenSSL, 10 ms

    sums = blake2b(digest_size=6)
    for file in sorted(one for one in directory.rglob("*") if one.is_file()):
        name = file.relative_to(directory).as_posix()
        if file.suffix.lower() in (".md", ".png", ".txt") or name.startswith("."):
            continue
        size = file.stat().st_size
        sums.update(f"{name}\0{size}\0".encode("utf-8", "replace"))
        with file.open("rb") as opened:
            if size <= _WHOLE:
                sums.update(opened.read())
            else:
                sums.update(opened.read(_END))
                opened.seek(-_END, os.SEEK_END)
                sums.update(opened.read(_END))
    return sums.hexdigest()


class LocalEmbedder(ModelEmbedder, ABC):
    """A model that runs in this process. It is loaded on first use; an adapter says how.

    One call at a time: what the libraries promise about threads differs.

    Args:
        kind: The adapter, as in specs; also the extra that installs what it needs.
        name: The model and what was asked for with it.
        directory: Where it lies.
        form: As in `ModelEmbedder`.
        revision: As in `ModelEmbedder`.
    """

    def __init__(
        self, kind: str, name: Name, directory: Path, *, form: str | None = None, revision: str
    ) -> None:
        super().__init__(kind, name, form=form, revision=revision)
        self._directory = directory
        self._lock = threading.Lock()
        self._loaded: Any = None

    @abstractmethod
    def _load(self) -> Any:
        """The model, from `_directory`."""

    @abstractmethod
    def _encode(self, model: Any, texts: list[str], *, query: bool) -> Sequence[Any]:
        """Rows of a batch."""

    def _rows(self, texts: list[str], end: float | None, *, query: bool) -> list[Row]:
        rows: list[Row] = []
        with self._lock:
            model = self._loaded
            if model is None:
                model = self._loaded = self._load()
            for at in range(0, len(texts), _BATCH):
                if at and end is not None and time.monotonic() > end:
                    raise self._error(
                        f"made {at} of {len(texts)} vectors within the time limit; make the rest with "
                        "`otolith embed`",
                        unavailable=True,
                        retry_after=_LATER,
                    )
                # Strict Unicode: a lone surrogate becomes "?" instead of failing the batch.
                part = [text.encode("utf-8", "replace").decode("utf-8") for text in texts[at : at + _BATCH]]
                answer = list(self._encode(model, part, query=query))
                if len(answer) != len(part):
                    raise self._error(f"returned {len(answer)} vectors for {len(part)} texts")
                rows += [self._finished(row) for row in answer]
        return rows

    def close(self) -> None:
        """Lets go of the model; it is loaded again when needed."""
        with self._lock:
            self._loaded = None


def needs(kind: str, module: str, name: Name) -> None:
    """Refuses an adapter whose library is not there.

    Raises:
        EmbedderUnavailable: Says what to install.
    """
    if not installed(module):
        what = f"{kind} is not installed; run `pip install otolith[{kind}]`"
        raise failure(f"{kind}:{name}", what, unavailable=True)


def not_cached(kind: str, name: Name, where: Sequence[Path], how: str) -> EmbedderError:
    """The error for a model that is not on this machine."""
    places = " or ".join(dict.fromkeys(str(one) for one in where))
    what = f"is not in {places}, and nothing is ever downloaded here; get it once with `{how}`"
    return failure(f"{kind}:{name}", what, unavailable=True)


def directory_of(
    kind: str,
    name: Name,
    files: Iterable[str],
    revision: str | None,
    *,
    caches: Sequence[Path] = (),
    owner: str | None = None,
) -> tuple[Name, Path, str]:
    """The name in one form, the directory and the version of a model named by a path or by an id of the hub.

    Args:
        kind: The adapter.
        name: The model.
        files: What must be there.
        revision: As in `snapshot`.
        caches: Where to look before the cache of the hub.
        owner: Whose models may be named without their owner.

    Raises:
        EmbedderUnavailable: It is not there; says how to get it.
    """
    wanted = list(files)
    if not is_path(name.model):
        whole = name.model if owner is None or "/" in name.model else f"{owner}/{name.model}"
        places = [*caches, hub_cache()]
        for root in places:
            found = snapshot(root, whole, wanted, revision)
            if found is not None:
                return name, found, found.name[:12]
        raise not_cached(kind, name, places, f"hf download {whole}")
    place = Path(name.model).expanduser().absolute()
    name = name._replace(model=str(place))
    missing = [one for one in wanted if not (place / one).is_file()]
    if missing:
        what = f"{place} holds no {missing[0]}; name the directory of a saved model"
        raise failure(f"{kind}:{name}", what, unavailable=True)
    return name, place, digest(place)
