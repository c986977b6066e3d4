"""Names inside PyTorch that libraries still import by their older paths."""

from __future__ import annotations

import pickle
from types import ModuleType
from typing import Any

import pytest

import adjoint as ad
from adjoint import serialization, unavailable
from adjoint._vmap_internals import _vmap
from adjoint.ao.quantization import observer as newer
from adjoint.autograd import functional
from adjoint.distributed import distributed_c10d
from adjoint.quantization import histogram, observer


def test_older_vmap() -> None:
    assert _vmap(lambda x: x.sum())(ad.ones(2, 3)).tolist() == [3, 3]
    assert _vmap(ad.dot, (0, None))(ad.ones(2, 3), ad.ones(3)).tolist() == [3, 3]
    with pytest.raises(NotImplementedError, match="allow_none_pass_through"):
        _vmap(ad.sin, allow_none_pass_through=True)


def test_storages_by_their_common_names() -> None:
    assert serialization.normalize_storage_type(ad.FloatStorage) is ad.FloatStorage
    assert serialization.normalize_storage_type(ad.UntypedStorage) is ad.UntypedStorage
    assert serialization.pickle is pickle


def test_the_observer_of_histograms_is_beside_the_others() -> None:
    assert observer.HistogramObserver is histogram.HistogramObserver
    assert newer.HistogramObserver is histogram.HistogramObserver
    assert observer.default_histogram_observer is histogram.default_histogram_observer
    with pytest.raises(AttributeError, match="NoSuchObserver"):
        _ = observer.NoSuchObserver


def test_ranks_of_a_group_by_the_older_name() -> None:
    assert distributed_c10d._get_global_rank is ad.distributed.get_global_rank


def test_whether_a_backward_is_for_every_leaf() -> None:
    told: list[bool] = []

    class Asking(ad.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x * 2

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            told.append(ad.autograd._is_checkpoint_valid())
            return g * 2

    x = ad.ones(1, requires_grad=True)
    Asking.apply(x).sum().backward()
    ad.autograd.grad(Asking.apply(x).sum(), x)
    Asking.apply(x).sum().backward(inputs=[x])
    assert told == [True, False, False]
    assert ad.autograd.Variable._execution_engine.is_checkpoint_valid()


def test_the_scale_of_rsub_by_place() -> None:
    x = ad.ones(2)
    assert ad.rsub(x, 1, 2.0).tolist() == [-1, -1]
    assert ad.rsub(x, x * 3, alpha=2).tolist() == [1, 1]
    with pytest.raises(TypeError, match="invalid combination"):
        ad.rsub(x, x, 2.0)


def test_a_jacobian_of_parts_that_libraries_use() -> None:
    x = ad.tensor([1.0, 2.0], requires_grad=True)
    y = ad.tensor([[3.0]], dtype=ad.float64, requires_grad=True)
    was_tuple, given = functional._as_tuple((x, y), "inputs", "jacobian")
    assert was_tuple
    outs = (x.prod() * y.sum().float(), x * 2)
    flat = tuple(out.reshape(-1) for out in outs)
    basis = functional._construct_standard_basis_for(flat, (1, 2))
    assert [tuple(part.shape) for part in basis] == [(3, 1), (3, 2)]

    def pulled(grads: Any) -> Any:
        return ad.autograd.grad(flat, given, grads)

    by_x, by_y = _vmap(pulled)(basis)
    assert by_x.tolist() == [[6, 3], [2, 0], [0, 2]]
    assert by_y.flatten().tolist() == [2, 0, 0]
    assert by_y.dtype is ad.float64


def test_results_are_as_their_arguments_were() -> None:
    x = ad.ones(1, requires_grad=True)
    assert functional._as_tuple([x]) == (x,)
    assert functional._as_tuple(x, "x", "f") == (False, (x,))
    with pytest.raises(TypeError, match="given x has type"):
        functional._as_tuple(3, "x", "f")
    with pytest.raises(TypeError, match="value at index 1"):
        functional._as_tuple((x, 3), "x", "f")
    assert functional._tuple_postprocess(((x,),), (False, False)) is x
    assert functional._tuple_postprocess(((x,),), (True, False)) == (x,)
    assert functional._tuple_postprocess((x,), False) is x
    made = functional._grad_postprocess(((x * 2,), x * 3), create_graph=False)
    assert not made[0][0].requires_grad
    assert functional._grad_postprocess(x, create_graph=True) is x


def test_quantised_batch_norms_say_that_they_are_not_there() -> None:
    there = ModuleType("adjoint.ao.nn.quantized")
    unavailable.fill(there)
    kind = there.BatchNorm2d
    assert not isinstance(ad.nn.BatchNorm2d(2), kind)
    with pytest.raises(NotImplementedError, match="fuse_modules"):
        kind(2)
