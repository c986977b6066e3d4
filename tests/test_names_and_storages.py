"""Operations by name, storages of files, dtypes for keeping, containers of trees."""

from __future__ import annotations

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
