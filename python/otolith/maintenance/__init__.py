"""Looking after a store file, also one that no handle can open."""

from __future__ import annotations

from .verifying import verify

__all__ = ["verify"]
