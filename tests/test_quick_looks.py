"""What is asked of a tensor's array alone is what its dtype and device say."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

import adjoint as ad
from adjoint.engine.backends.array import sequences
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


def nested(choose: random.Random, depth: int) -> Any:
    """Sequences of numbers, mostly of one kind and one length."""
    if not depth:
        some = [0.5, -0.0, 1e300, float("nan"), 3, 2**70, True, 1j, np.float32(2), ad.ones(())]
        return choose.choice(some[:4] if choose.random() < 0.9 else some)
    length = choose.choice([0, 1, 2, 2, 2])
    kind = choose.choice([list, list, tuple])
    whole = choose.random() < 0.3
    return kind(
        choose.randrange(-9, 9) if whole and depth == 1 else nested(choose, depth - 1)
        for _ in range(length)
    )


def test_numbers_in_sequences_are_read_as_others_are(monkeypatch: pytest.MonkeyPatch) -> None:
    choose = random.Random(0)
    quick = sequences._of_numbers
    used = 0
    for _ in range(3000):
        data = nested(choose, choose.randrange(1, 4))
        dtype = choose.choice([None, None, ad.float64, ad.float32, ad.int64, ad.int8, ad.bfloat16])
        seen = []
        for read in (quick, lambda data, dtype: None):
            monkeypatch.setattr(sequences, "_of_numbers", read)
            try:
                array = sequences.to_array(data, dtype)
            except Exception as error:
                seen.append((type(error), str(error)))
            else:
                seen.append((array.dtype, array.shape, array.tobytes()))
        assert seen[0] == seen[1], (data, dtype)
        used += quick(data, dtype) is not None if isinstance(seen[0][0], np.dtype) else 0
    assert used > 500


@pytest.mark.parametrize(
    "key", [[0, 1], [[1, 0], [1, 1]], [True, False], [[True, False, True], [False, True, True]]]
)
def test_arrays_of_numpys_are_keys(key: Any) -> None:
    x = ad.arange(6).reshape(2, 3)
    assert x[np.array(key)].equal(x[ad.tensor(key)])
    with pytest.raises(IndexError):
        x[np.array([2])]
    with pytest.raises(IndexError):
        x[np.array([1.0])]
    assert x[np.array(1)].equal(x[1])


def test_sizes_are_whole_numbers() -> None:
    assert ad.Size([2, ad.tensor(3)]) == (2, 3)
    assert type(ad.Size((2, 3))) is type(ad.Size([2, ad.tensor(3)])) is ad.Size
    for wrong in ([2.0], ["a"], [None], [2, ad.tensor(1.5)]):
        with pytest.raises(TypeError, match="iterable of 'int'"):
            ad.Size(wrong)


def test_gradients_of_replaced_properties_are_dropped_their_way() -> None:
    class Odd(ad.nn.Parameter):
        dropped = 0

        @property
        def grad(self) -> Any:  # type: ignore[override]
            return None

        @grad.setter
        def grad(self, value: Any) -> None:
            Odd.dropped += 1

    plain = ad.nn.Parameter(ad.ones(2))
    plain.grad = ad.ones(2)
    optimizer = ad.optim.SGD([plain, Odd(ad.ones(2))], lr=0.1)
    optimizer.zero_grad()
    assert plain.grad is None
    assert Odd.dropped == 1


def test_turned_in_place_under_no_grad_and_out_of_it() -> None:
    n = ad.arange(6.0).reshape(2, 3).clone()
    for grad in (True, False, True):
        with ad.set_grad_enabled(grad):
            for _ in range(3):
                n.t_()
                n.unsqueeze_(0).squeeze_(0)
                n.swapaxes_(0, 1)
    assert n.tolist() == [[0.0, 1.0, 2.0], [3.0, 4.0, 5.0]]
    assert len(n._chain) <= 4
