"""Names for annotations. Imports numpy: only type checkers and stubs import it."""

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

MetaValue: TypeAlias = str | int | float | bool | None
VectorLike: TypeAlias = NDArray[np.floating[Any]] | Sequence[float]
MatrixLike: TypeAlias = NDArray[np.floating[Any]] | Sequence[VectorLike | None]
