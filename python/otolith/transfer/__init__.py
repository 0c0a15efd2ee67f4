"""Moving memories: our own JSON lines, restored exactly, and the JSON lines of others."""

from __future__ import annotations

from .checking import checked
from .exporting import export
from .foreign import import_lines
from .native import import_export

__all__ = ["checked", "export", "import_export", "import_lines"]
