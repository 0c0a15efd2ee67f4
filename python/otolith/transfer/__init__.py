"""Moving memories: our own JSON lines, restored exactly, and what others write."""

from __future__ import annotations

from .checking import checked
from .exporting import export
from .foreign import import_lines
from .locomo import import_locomo
from .native import import_export

__all__ = ["checked", "export", "import_export", "import_lines", "import_locomo"]
