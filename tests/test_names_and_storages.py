"""Operations by name, storages of files, dtypes for keeping, containers of trees."""

from __future__ import annotations

import copy
import dataclasses
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import adjoint as ad
from adjoint import library
from adjoint.utils import _pytree as pytree


@library.custom_op("tests::cube", mutates_args=())
def cube(x: ad.Tensor) -> ad.Tensor:
    return x * x * x


def test_operations_by_name() -> None:
    x = ad.tensor([-1.0, 2.0])
    assert ad.ops.tests.cube.default is cube
    assert ad.ops.tests.cube(x).tolist() == [-1.0, 8.0]
    assert ad.ops.aten.relu.default(x).tolist() == [0.0, 2.0]
    assert ad.ops.aten.add.Tensor(x, x).tolist() == [-2.0, 4.0]
    assert str(ad.ops.aten.add.Tensor) == "aten.add.Tensor"
    with pytest.raises(NotImplementedError, match="aten::no_such"):
        ad.ops.aten.no_such(x)
    with pytest.raises(AttributeError, match="no_such"):
        _ = ad.ops.tests.no_such
    with pytest.raises(ValueError, match="namespace::name"):
        library.custom_op("plain", lambda x: x)


@pytest.mark.parametrize("name", ["uint16", "uint32", "uint64", "float8_e4m3fn", "float8_e5m2"])
def test_dtypes_for_keeping(name: str) -> None:
    dtype = getattr(ad, name)
    x = ad.tensor([0.0, 1.0, 2.0, 7.0]).to(dtype)
    assert x.dtype is dtype
    assert x.to(ad.float32).tolist() == [0.0, 1.0, 2.0, 7.0]
    assert x[1:].clone().reshape(3, 1).to(ad.float64).tolist() == [[1.0], [2.0], [7.0]]
    with pytest.raises(NotImplementedError, match=f"not implemented for {name}"):
        x + x
    if not name.startswith("float8"):
        values = np.array([1, 2, np.iinfo(name).max], dtype=name)
        assert ad.from_numpy(values).tolist() == values.tolist()


def test_storages_of_files(tmp_path: Path) -> None:
    file = tmp_path / "bytes"
    file.write_bytes(bytes(range(16)))
    storage = ad.UntypedStorage.from_file(str(file), shared=False, nbytes=16)
    assert storage.untyped() is storage
    assert storage[2:6].tolist() == [2, 3, 4, 5]
    assert storage[3] == 3
    part = ad.asarray(storage[4:12], dtype=ad.int32)
    assert part.tolist() == np.frombuffer(bytes(range(4, 12)), np.int32).tolist()
    part.zero_()
    assert file.read_bytes() == bytes(range(16))  # a private map
    shared = ad.UntypedStorage.from_file(str(file), shared=True, nbytes=16)
    ad.asarray(shared, dtype=ad.uint8)[0] = 9
    assert file.read_bytes()[0] == 9
    with pytest.raises(RuntimeError, match="16 bytes"):
        ad.UntypedStorage.from_file(str(file), shared=False, nbytes=17)


def test_containers_of_ones_own_in_trees() -> None:
    class Pair:
        def __init__(self, left: Any, right: Any) -> None:
            self.left, self.right = left, right

    pytree.register_pytree_node(Pair, lambda p: ([p.left, p.right], "kept"), lambda c, _: Pair(*c))
    doubled = pytree.tree_map(lambda x: x * 2, {"a": Pair(1, [2, 3])})
    assert isinstance(doubled["a"], Pair)
    assert (doubled["a"].left, doubled["a"].right) == (2, [4, 6])
    with pytest.raises(ValueError, match="already registered"):
        pytree.register_pytree_node(Pair, lambda p: ([], None), lambda c, _: None)


SHAPED = ad.arange(12.0).reshape(3, 4).sin()
SLOPE = ad.arange(12.0).reshape(3, 4).cos()


@pytest.mark.parametrize(
    ("name", "public", "params"),
    [
        ("threshold_backward", ad.relu, {"threshold": 0}),
        ("gelu_backward", ad.nn.functional.gelu, {}),
        ("silu_backward", ad.nn.functional.silu, {}),
    ],
)
def test_derivatives_by_name(name: str, public: Any, params: dict[str, Any]) -> None:
    x = SHAPED.clone().requires_grad_()
    public(x).backward(SLOPE)
    ad.testing.assert_close(getattr(ad.ops.aten, name)(SLOPE, SHAPED, **params), x.grad)


@pytest.mark.parametrize(
    ("name", "public"), [("_softmax", ad.softmax), ("_log_softmax", ad.log_softmax)]
)
def test_inner_forms_by_name(name: str, public: Any) -> None:
    x = SHAPED.clone().requires_grad_()
    public(x, 1).backward(SLOPE)
    out = getattr(ad.ops.aten, name)(SHAPED, 1, False)
    back = getattr(ad.ops.aten, f"{name}_backward_data")(SLOPE, out, 1, ad.float32)
    assert x.grad is not None
    ad.testing.assert_close(back, x.grad)


def test_norms_by_name_keep_their_statistics() -> None:
    out, mean, scale = ad.ops.aten.native_layer_norm(SHAPED, [4], None, None, 1e-5)
    ad.testing.assert_close(out, (SHAPED - mean) * scale)
    assert ad.ops.aten.unfold(SHAPED, 1, 2, 1).shape == (3, 3, 2)
    assert ad.ops.aten.linalg_vector_norm(SHAPED).shape == ()


@pytest.mark.parametrize(
    "dtype", [ad.uint16, ad.uint32, ad.uint64, ad.float8_e4m3fn, ad.float8_e5m2]
)
def test_kept_dtypes_are_saved_and_compared(dtype: Any, tmp_path: Path) -> None:
    x = ad.tensor([1, 2, 4]).to(dtype)
    ad.save({"x": x, "view": x[1:]}, tmp_path / "kept.pt")
    back = ad.load(tmp_path / "kept.pt")
    assert back["x"].dtype is dtype
    assert back["x"].equal(x)
    assert back["view"].equal(x[1:])
    assert ad.compile(lambda a, b: a == b)(x, back["x"]).all()
    if not dtype.is_floating_point:
        assert (x * x & 4).tolist() == [0, 4, 0]
        assert x.clone().fill_(3).tolist() == [3, 3, 3]


def test_wide_unsigned_products_wrap_around() -> None:
    x = ad.tensor([65535]).to(ad.uint16)
    assert (x * x).tolist() == ad.compile(lambda a: a * a)(x).tolist() == [1]
    with pytest.raises(NotImplementedError, match="kept in it"):
        x + x


def test_storages_are_made_written_and_copied() -> None:
    storage = ad.UntypedStorage(4)
    storage[1] = 7
    other = storage.clone().fill_(2)
    assert (storage.tolist(), other.tolist()) == ([0, 7, 0, 0], [2, 2, 2, 2])
    assert storage.copy_(other).tolist() == [2, 2, 2, 2]
    assert ad.UntypedStorage([1, 2]).tolist() == [1, 2]
    assert repr(other) == " 2\n 2\n 2\n 2\n[adjoint.storage.UntypedStorage(device=cpu) of size 4]"
    x = ad.zeros(2)
    before = x._version
    x.untyped_storage().fill_(0)
    assert x._version > before
    read = {
        kind: kind.from_buffer(b"abcd", "big", count=1, offset=2, dtype=ad.int16)
        for kind in (ad.UntypedStorage, ad.TypedStorage)
    }
    assert [kept.tolist() for kept in read.values()] == [[100, 99], [ord("c") * 256 + ord("d")]]
    with pytest.raises(RuntimeError, match="dtype"):
        ad.UntypedStorage.from_buffer(b"abcd")
    with pytest.raises(NotImplementedError, match="resize_"):
        storage.resize_(8)


def test_tensors_are_exchanged() -> None:
    a, b = ad.nn.Parameter(ad.ones(1)), ad.zeros(2)
    ad.utils.swap_tensors(a, b)
    assert (type(a), a.tolist(), type(b)) == (ad.Tensor, [0.0, 0.0], ad.nn.Parameter)
    y = b * 2
    with pytest.raises(RuntimeError, match="tape"):
        ad.utils.swap_tensors(b, y)


def test_an_operation_is_checked_against_what_was_registered() -> None:
    @library.custom_op("tests::wrong_shape", mutates_args=())
    def wrong_shape(x: ad.Tensor) -> ad.Tensor:
        return x.clone()

    wrong_shape.register_fake(lambda x: x.new_empty(1))
    told = library.opcheck(wrong_shape, (ad.ones(3),), raise_exception=False)
    assert "its fake says" in str(told["test_faketensor"])
    with pytest.raises(Exception, match="no derivative"):
        library.opcheck(
            wrong_shape, (ad.ones(3, requires_grad=True),), test_utils="test_autograd_registration"
        )
    assert set(library.opcheck(cube, (ad.ones(2),)).values()) == {"SUCCESS"}


def test_trees_of_dataclasses_and_constants() -> None:
    @dataclasses.dataclass
    class Pair:
        a: Any
        b: Any

    class Name(str):
        __slots__ = ()

    pytree.register_dataclass(Pair)
    pytree.register_constant(Name)
    assert pytree.tree_map(lambda x: x + 1, Pair(1, [2])) == Pair(2, [3])
    assert pytree.tree_leaves({"n": Name("x"), "v": 1}) == [1]
    assert pytree.tree_all_only(int, lambda x: x > 0, [1, "a", 2])
    assert not pytree.tree_any_only(str, lambda x: x == "b", [1, "a"])


def test_a_tensor_of_a_storage_shares_its_memory() -> None:
    x = ad.arange(6.0)
    for dtype, want in ((ad.float32, 9.0), (ad.int32, 0x41100000), (ad.float64, None)):
        y = ad.tensor(x.untyped_storage(), dtype=dtype)
        assert y.numel() == 24 // dtype.itemsize
        x[0] = 9.0
        assert want is None or y[0] == want
    assert ad.tensor(x.untyped_storage()).dtype == ad.int64
    assert ad.tensor(x.untyped_storage()[:5], dtype=ad.float32).tolist() == [9.0]


def test_named_results_are_made_of_one_sequence() -> None:
    a, b = ad.ones(2), ad.zeros(2)
    made = ad.return_types.max((a, b))
    assert made.values is a
    assert made.indices is b
    assert type(made) is type(a.max(0))
    assert type(made)._make(made)._replace(values=b).values is b
    with pytest.raises(TypeError, match="values, indices"):
        ad.return_types.max((a, b, a))


def test_names_of_what_is_compiled_in_pytorch() -> None:
    a = ad.arange(6.0)
    assert ad._C._is_alias_of(a, a[2:])
    assert not ad._C._is_alias_of(a, a.clone())
    assert ad._C._get_default_device() == "cpu"
    assert ad.legacy_contiguous_format is ad.contiguous_format
    forward_ad = ad.autograd.forward_ad
    assert forward_ad._current_level == -1
    with forward_ad.dual_level():
        assert forward_ad._current_level == 0


def test_lines_of_complex_numbers_are_as_long_as_pytorchs() -> None:
    z = ad.full((7,), 1.5 + 1500j)
    rows = ["1.5000+1500.j, " * 4 + "1.5000+1500.j,", "1.5000+1500.j, 1.5000+1500.j"]
    assert repr(z) == "tensor([" + "\n        ".join(rows) + "])"


def test_a_class_of_ones_own_prints_by_its_name() -> None:
    class Marked(ad.Tensor):
        pass

    x = ad.tensor([1.0, 2.0])
    assert repr(x.as_subclass(Marked) * 2) == "Marked([2., 4.])"
    assert repr(x) == "tensor([1., 2.])"


def test_asarray_stays_on_the_tape_unless_told() -> None:
    def leaf() -> Any:
        return ad.tensor([1.0, 2.0], requires_grad=True)

    for make in (leaf, lambda: leaf() * 2):
        x = make()
        assert ad.asarray(x) is x
        assert ad.asarray(x, requires_grad=True) is x
        assert ad.asarray(x, dtype=ad.float64).grad_fn is not None
        assert ad.asarray(x, copy=True).grad_fn is not None
        assert not ad.asarray(make(), requires_grad=False).requires_grad
    plain = ad.ones(2)
    assert ad.asarray(plain, requires_grad=True) is plain
    assert plain.requires_grad
    with pytest.raises(ValueError, match="alias"):
        ad.asarray([1], copy=False)


def test_a_capsule_of_memory_is_taken() -> None:
    x = ad.arange(4.0)
    ad.from_dlpack(x.__dlpack__())[0] = 9.0
    assert x.tolist() == [9.0, 1.0, 2.0, 3.0]
    grid = ad.arange(12.0).reshape(3, 4)
    seen = ad.from_dlpack(grid.T[1:].__dlpack__())
    seen[0, 2] = -1.0
    assert grid[2, 1] == -1.0
    assert seen.equal(grid.T[1:])


@pytest.mark.parametrize("limits", [ad.finfo(ad.float16), ad.iinfo(ad.uint8)])
def test_limits_of_numbers_are_read_only(limits: Any) -> None:
    most = limits.max
    with pytest.raises(AttributeError, match="'max' of '.info' objects is not writable"):
        limits.max = 3
    with pytest.raises(AttributeError, match="not writable"):
        del limits.max
    with pytest.raises(AttributeError, match="no attribute 'another'"):
        limits.another = 3
    for same in (limits, copy.deepcopy(limits), pickle.loads(pickle.dumps(limits))):
        assert same.max == most


@pytest.mark.parametrize(
    ("call", "error", "said"),
    [
        (lambda: ad.tensor([1, [2]]), TypeError, "'list' object cannot be interpreted as a number"),
        (lambda: ad.tensor([[1, 2], [3, (4,)]]), TypeError, "'tuple' object .* at dim 1"),
        (lambda: ad.tensor([[1], 2]), TypeError, "not a sequence: 2"),
        (lambda: ad.tensor([[1, 2], [3]]), ValueError, "length 2 at dim 1"),
        (lambda: ~ad.ones(2), TypeError, "only implemented on integer and Boolean"),
        (lambda: ~ad.ones(2, dtype=ad.complex64), TypeError, "received complex64"),
        (lambda: ad.bitwise_not(ad.ones(2)), NotImplementedError, "bitwise_not"),
        (lambda: ad.mvlgamma(ad.tensor([True]), 1), RuntimeError, "boolean tensor"),
    ],
)
def test_arguments_of_a_wrong_kind(call: Any, error: Any, said: str) -> None:
    with pytest.raises(error, match=said):
        call()


def test_storages_move_to_shared_memory_with_their_tensor() -> None:
    x = ad.ones(2, 3)
    storage, typed = x.untyped_storage(), x.storage()
    assert storage.share_memory_() is storage
    assert x.is_shared()
    assert (storage.data_ptr(), typed.data_ptr()) == (x.data_ptr(), x.data_ptr())
    x[0, 0] = 7
    assert typed.tolist()[0] == 7
    held = ad.UntypedStorage([1, 2]).share_memory_()
    assert (held.is_shared(), held.tolist()) == (True, [1, 2])
    part = ad.arange(4.0)
    view = part[1:]
    with pytest.raises(NotImplementedError, match="before taking views"):
        view.storage().share_memory_()
    assert (storage.float().dtype, storage.is_sparse) == (ad.float32, False)
