"""What native code says of tensors (Note [looked at natively]) is what Python says of them."""

from __future__ import annotations

import random
import subprocess
import sys
from typing import Any

import numpy as np
import pytest

import adjoint as ad
from adjoint.engine.backends.llvm.small import looking, loops
from adjoint.engine.core.dtype import DTYPES
from adjoint.engine.core.operations.record import HOOKS
from adjoint.engine.core.ownership import REPLACED, is_written_here
from adjoint.engine.tensor.tensor import DTYPE_OF
from adjoint.engine.tensor.watching import is_watched

pytestmark = pytest.mark.skipif(
    loops.native() is None or HOOKS.untyped(ad.ones(1)) is None,
    reason="objects are laid out otherwise here: nothing is looked at natively",
)


def random_tensor(choose: random.Random) -> Any:
    """Some tensor, perhaps a view, perhaps on the tape, perhaps a parameter."""
    shape = [choose.choice([0, 1, 2, 3, 300]) for _ in range(choose.randrange(4))]
    dtype = choose.choice([*DTYPES, ad.uint16])
    x = ad.empty(shape, dtype=dtype, device=choose.choice(["cpu", "cpu", "cpu", "meta"]))
    if dtype.is_floating_point and choose.random() < 0.5:
        x.requires_grad_()
        if choose.random() < 0.5 and x.ndim:
            x = choose.choice(
                [lambda: x[::2], lambda: x.mT if x.ndim > 1 else x[:1], lambda: x * 1]
            )()
        elif choose.random() < 0.5:
            x = ad.nn.Parameter(x.detach(), requires_grad=choose.random() < 0.5)
    elif x.ndim and choose.random() < 0.5:
        x = x[1:] if choose.random() < 0.5 else x.unsqueeze(0)
    return x


def test_all_properties_are_those_of_python() -> None:
    choose = random.Random(0)
    for _ in range(400):
        x = random_tensor(choose)
        for name in looking.PROPERTIES:
            seen, wanted = getattr(x, name), looking.SLOWLY[name](x)
            assert type(seen) is type(wanted), name
            if name != "data":
                assert seen == wanted, name
                assert hash(seen) == hash(wanted), name
                continue
            assert seen._array is wanted._array
            assert seen._chain == wanted._chain
            assert not seen.requires_grad
            assert seen._storage is not x._storage
            own, other = seen._storage, wanted._storage
            for slot in ("buffer", "birth", "version", "level", "trace", "payload"):
                assert getattr(own, slot) is getattr(other, slot), slot
            assert own.sharing is x._storage.sharing
        untyped = x.untyped_storage() if x.device.type == "cpu" else None
        if untyped is not None:
            assert (untyped._storage, untyped.device) == (x._storage, x.device)
            known = x._array.__array_interface__["data"][0] if x.numel() else 0
            assert x.data_ptr() == known
            assert x.data_ptr() == known, "asked again, when it has been shown"
            buffer = x._storage.buffer
            first = buffer.__array_interface__["data"][0] if buffer.size else 0
            assert [untyped.data_ptr() for _ in range(2)] == [first, first]


def test_what_is_read_is_held_and_let_go_of() -> None:
    x = ad.ones(3, 5)[1:]
    array = x._array
    things = [array, x._storage, x._chain, ad.float32, x._storage.buffer, DTYPE_OF]
    before = list(map(sys.getrefcount, things))
    for _ in range(200):
        for name in (*looking.PROPERTIES,):
            getattr(x, name)
        x.data_ptr(), x.untyped_storage().data_ptr(), ad.from_numpy(array)
    assert list(map(sys.getrefcount, things)) == before
    assert x._storage.sharing.joins == 200


def test_a_second_storage_is_noted() -> None:
    x = ad.ones(3)
    assert is_watched(x._storage)
    other = x.data
    other.add_(1)
    assert not is_watched(x._storage)
    assert (x._version, other._version) == (0, 1)
    del other
    assert is_watched(x._storage)


@pytest.mark.parametrize("dtype", ["f4", "f8", "i8", "?", "c8", "u2", "f2", "S3", "O", ">f4"])
def test_arrays_of_numpys(dtype: str) -> None:
    array: Any
    for array in (
        np.zeros((3, 4), dtype),
        np.zeros((3, 4), dtype)[:, ::2],
        np.zeros((3, 4), dtype)[::-1],
        np.broadcast_to(np.zeros(4, dtype), (3, 4)),
        np.zeros((), dtype),
        np.zeros((0, 3), dtype),
        np.zeros(4, [("first", "u1"), ("rest", dtype)])["rest"],
    ):
        made = []
        for native in (HOOKS.from_memory, lambda _: None):
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(HOOKS, "from_memory", native)
                try:
                    x = ad.from_numpy(array)
                except (TypeError, ValueError) as error:
                    made.append(str(error))
                else:
                    assert x._array is array
                    assert x._storage.sharing.shown
                    made.append(str(x._spec))
        assert made[0] == made[1]


def test_other_contexts_are_pythons() -> None:
    x = ad.ones(2)
    with ad.inference_mode():
        assert ad.from_numpy(np.zeros(2)).is_inference()
        assert x.data.is_inference() is x.is_inference() is False
        assert ad.ones(2).data.is_inference()
    seen = ad.compile(lambda x: (x.data * x.shape[0], x.ndim, x.is_leaf))(x)
    assert seen[0].tolist() == [2.0, 2.0]
    assert seen[1:] == (1, True)
    assert ad.func.vmap(lambda row: row * row.shape[0])(ad.ones(3, 2)).tolist() == [[2.0, 2.0]] * 3


def test_classes_of_ones_own_are_asked() -> None:
    class Odd(ad.Tensor):
        shape = property(lambda self: "of its own")  # type: ignore[assignment]

    class Asked(ad.Tensor):
        @classmethod
        def __torch_function__(
            cls, func: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            return func.__name__, getattr(func.__self__, "__name__", "")

    assert ad.ones(2).as_subclass(Odd).shape == "of its own"
    assert ad.ones(2).as_subclass(Asked).shape == ("__get__", "shape")
    lazy: Any = ad.nn.LazyLinear(3).weight
    with pytest.raises(ValueError, match="uninitialized"):
        lazy.ndim  # noqa: B018
    for name in looking.PROPERTIES:
        for what in (3, None, [1]):
            with pytest.raises(AttributeError):
                vars(ad.Tensor)[name].fget(what)


def test_getters_count_as_the_frameworks_own() -> None:
    assert all(is_written_here(vars(ad.Tensor)[name]) for name in looking.PROPERTIES)
    assert not REPLACED
    assert not is_written_here(property(id))


PROGRAM = """
import adjoint as ad
from adjoint.engine.backends.llvm.small import loops
from adjoint.engine.core.ownership import REPLACED
ad.Tensor.ndim = property(lambda self: 40)
class Between(ad.Tensor):
    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        seen.append(func)
        return super().__torch_function__(func, types, args, kwargs or {})
seen = []
form = ad.Tensor.shape
loops.native()
x = ad.ones(2).as_subclass(Between)
assert x.shape == (2,) and seen == [ad.Tensor.shape.__get__] and form is ad.Tensor.shape
assert ad.ones(2).ndim == 40 and list(REPLACED) == ["ndim"], REPLACED
print("as it was")
"""


def test_what_programs_replaced_stays() -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True)
    assert done.stdout == "as it was\n", done.stderr


# Native code is loaded after some calls; before that Python reads the properties.
LOADED_BETWEEN = """
import adjoint as ad
from adjoint.engine.backends.llvm.small import loops

@ad.compile
def f(x):
    return x.to(ad.float64) if x.dtype is ad.float32 and x.ndim == 2 else x

before = vars(ad.Tensor)["dtype"]
f(ad.ones(2, 3))
loops.native()
assert vars(ad.Tensor)["dtype"] is not before
f(ad.ones(2, 3))
assert f.traces == 1, f.recordings()
ad.Tensor.dtype = property(lambda x: ad.float16)
assert f(ad.ones(2, 3)) is not None
assert f.traces == 2, f.recordings()
"""


def test_a_recording_outlasts_that_properties_are_read_natively() -> None:
    subprocess.run([sys.executable, "-c", LOADED_BETWEEN], check=True)
