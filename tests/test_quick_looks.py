"""What is asked of a tensor's array alone is what its dtype and device say."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import adjoint as ad
from adjoint.engine.core.dtype import DTYPES
from adjoint.nn import init


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("device", ["cpu", "meta"])
def test_bytes_of_an_element(dtype: Any, device: str) -> None:
    x = ad.empty(2, 3, dtype=dtype, device=device)
    assert x.itemsize == x.element_size() == dtype.itemsize
    assert x.T[1:].itemsize == dtype.itemsize
    assert x.nbytes == 6 * dtype.itemsize
    if device == "cpu":
        assert x.get_device() == -1


def test_plus_is_the_tensor_itself() -> None:
    for x in (
        ad.ones(2),
        ad.ones(2, requires_grad=True),
        ad.ones(2, dtype=ad.int8),
        ad.ones(2, 3).T,
    ):
        assert +x is x
    with pytest.raises(RuntimeError, match="not supported"):
        +ad.ones(2, dtype=ad.bool)

    class Asked(ad.Tensor):
        @classmethod
        def __torch_function__(
            cls, func: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            return func.__name__

    assert +ad.ones(2).as_subclass(Asked) in ("__pos__", "positive")


@pytest.mark.parametrize("shape", [(3, 4), (3, 4, 5), (2, 3, 4, 5), (0, 4), (3, 0, 2), (3, 4, 0)])
def test_fans(shape: tuple[int, ...]) -> None:
    field = 1
    for size in shape[2:]:
        field *= size
    assert init._calculate_fan_in_and_fan_out(ad.empty(shape)) == (
        shape[1] * field,
        shape[0] * field,
    )


def test_memory_from_outside_is_never_watched() -> None:
    """It is shown from the first moment on: `sharing` is there whoever asks first."""
    array = np.zeros(3, np.float32)
    x = ad.from_numpy(array)
    assert x._storage.sharing.shown
    y = ad.zeros(3)
    assert not hasattr(y._storage, "sharing")
    y.data_ptr()
    assert y._storage.sharing.shown
    z = y.data
    assert z._storage.sharing is y._storage.sharing
    assert z._storage.sharing.joins == 1
