"""Array kernels of the random primitives."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from adjoint.engine.backends.array.dtypes import NUMPY_OF
from adjoint.engine.backends.array.kernels.random.distributions import LAWS
from adjoint.engine.backends.array.kernels.random.philox import random_words
from adjoint.engine.backends.array.table import lowers
from adjoint.engine.core.dtype import DType
from adjoint.engine.ops.random.random import RANDOM, word_bits

Array = Any


@lowers(RANDOM)
def random(
    xp: Any,
    seed: int,
    offset: int,
    *,
    law: str,
    args: tuple[Any, ...],
    shape: tuple[int, ...],
    dtype: DType,
    device: Any,
) -> Array:
    sample = LAWS[law]
    target = NUMPY_OF[dtype.to_real()]
    count = prod(shape) * (2 if dtype.is_complex else 1)
    if dtype.is_complex and law == "normal":
        mean, std = args
        args = (mean, std * 0.7071067811865476)  # the parts share the variance
    out = xp.empty(count, target)
    for start, chunk in random_words(xp, seed, offset, count, word_bits(law, dtype)):
        values = sample(xp, chunk, target, *args)
        if dtype.is_half and values.dtype != np.float32:
            values = values.astype(np.float32)  # to halves by one way on every device
        out[start : start + chunk.size] = values
    return out.view(NUMPY_OF[dtype]).reshape(shape)
