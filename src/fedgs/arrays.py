"""Names for the kinds of array that the package passes around."""

from typing import Any

import numpy as np
import numpy.typing as npt

IntArray = npt.NDArray[np.int64]
FloatArray = npt.NDArray[np.float64]
FloatMatrix = npt.NDArray[np.float64]
BoolArray = npt.NDArray[np.bool_]
AnyArray = npt.NDArray[Any]
