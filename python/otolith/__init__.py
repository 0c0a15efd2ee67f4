"""Long-term memory for software agents: one directory, in-process, shared by many processes.

Every name is loaded on first use, so that `import otolith` costs next to nothing.
"""

from __future__ import annotations

import sys

TYPE_CHECKING = False  # type checkers take it for true; `typing` alone would cost more than all the rest
if TYPE_CHECKING:
    from typing import Any

    from . import embedders, exceptions
    from ._core import __version__
    from .aio import AsyncMemory
    from .embedders.base import Embedder
    from .exceptions import (
        Conflict,
        DimensionMismatch,
        EmbedderError,
        EmbedderUnavailable,
        FormatTooNew,
        InternalError,
        InvalidInput,
        NotFound,
        OtolithError,
        ReadOnly,
        StoreCorrupt,
        StoreError,
        StoreLocked,
    )
    from .memory import Memory
    from .records import (
        Analysis,
        Analyzer,
        BackupReport,
        CompactReport,
        Coverage,
        EmbedReport,
        Episode,
        Explanation,
        ExportReport,
        Filter,
        FilterEffect,
        ForgetReport,
        Hit,
        HybridIndex,
        IdSet,
        ImportReport,
        IndexHit,
        IndexParams,
        Inserted,
        Keeper,
        Leg,
        Loss,
        Pending,
        Problem,
        ReindexReport,
        RememberReport,
        Repair,
        Report,
        Status,
        VerifyReport,
    )

__all__ = [
    "Analysis",
    "Analyzer",
    "AsyncMemory",
    "BackupReport",
    "CompactReport",
    "Conflict",
    "Coverage",
    "DimensionMismatch",
    "EmbedReport",
    "Embedder",
    "EmbedderError",
    "EmbedderUnavailable",
    "Episode",
    "Explanation",
    "ExportReport",
    "Filter",
    "FilterEffect",
    "ForgetReport",
    "FormatTooNew",
    "Hit",
    "HybridIndex",
    "IdSet",
    "ImportReport",
    "IndexHit",
    "IndexParams",
    "Inserted",
    "InternalError",
    "InvalidInput",
    "Keeper",
    "Leg",
    "Loss",
    "Memory",
    "NotFound",
    "OtolithError",
    "Pending",
    "Problem",
    "ReadOnly",
    "ReindexReport",
    "RememberReport",
    "Repair",
    "Report",
    "Status",
    "StoreCorrupt",
    "StoreError",
    "StoreLocked",
    "VerifyReport",
    "__version__",
    "embedders",
    "exceptions",
]

# Where a name comes from when it is not a record.
_HOMES = {
    "AsyncMemory": "aio",
    "Embedder": "embedders.base",
    "Memory": "memory",
    "__version__": "_core",
}
_ERRORS = frozenset(
    {
        "Conflict",
        "DimensionMismatch",
        "EmbedderError",
        "EmbedderUnavailable",
        "FormatTooNew",
        "InternalError",
        "InvalidInput",
        "NotFound",
        "OtolithError",
        "ReadOnly",
        "StoreCorrupt",
        "StoreError",
        "StoreLocked",
    }
)
_MODULES = frozenset({"embedders", "exceptions"})


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    source = _HOMES.get(name, "exceptions" if name in _ERRORS else "records")
    module = f"{__name__}.{name if name in _MODULES else source}"
    __import__(module)
    value = sys.modules[module] if name in _MODULES else getattr(sys.modules[module], name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
