"""Looking after a home: damage, compaction, backup, diagnosis; also of one that no handle can open."""

from __future__ import annotations

from .verifying import verify

__all__ = ["verify"]
