"""Derivatives of functions by the tape: jacobian, hessian, vjp, jvp, vhp, hvp.

The functions with an underscore are parts of PyTorch's that libraries build their own forms from.
"""

from __future__ import annotations

from typing import Any

from adjoint.engine.autodiff.transforms.functional import hessian as hessian
from adjoint.engine.autodiff.transforms.functional import hvp as hvp
from adjoint.engine.autodiff.transforms.functional import jacobian as jacobian
from adjoint.engine.autodiff.transforms.functional import jvp as jvp
from adjoint.engine.autodiff.transforms.functional import vhp as vhp
from adjoint.engine.autodiff.transforms.functional import vjp as vjp
from adjoint.engine.ops.create.ranges import eye
from adjoint.engine.tensor.tensor import Tensor


def _as_tuple(inp: Any, arg_name: str | None = None, fn_name: str | None = None) -> Any:
    """A tensor, or several, as a tuple; with the argument's name also whether it was one."""
    was_tuple = isinstance(inp, tuple)
    many = inp if was_tuple else tuple(inp) if isinstance(inp, list) else (inp,)
    for place, x in enumerate(many):
        if not isinstance(x, Tensor):
            what = f"value at index {place}" if was_tuple else f"given {arg_name}"
            raise TypeError(
                f"The {arg_name} given to {fn_name} must be either a Tensor or a tuple of Tensors "
                f"but the {what} has type {type(x)}."
            )
    return many if arg_name is None and fn_name is None else (was_tuple, many)


def _tuple_postprocess(res: Any, to_unpack: Any) -> Any:
    """The only element of a tuple where that is what was given; of both levels for a pair."""
    outer, inner = to_unpack if isinstance(to_unpack, tuple) else (to_unpack, True)
    if not inner:
        res = tuple(row[0] for row in res)
    return res if outer else res[0]


def _grad_postprocess(inputs: Any, create_graph: bool) -> Any:
    """Tensors, also in tuples of tuples, off the tape unless it is to go on."""
    if create_graph:
        return inputs
    if isinstance(inputs, Tensor):
        return inputs.detach()
    return tuple(_grad_postprocess(x, create_graph) for x in inputs)


def _construct_standard_basis_for(
    tensors: tuple[Tensor, ...], tensor_numels: tuple[int, ...]
) -> tuple[Tensor, ...]:
    """The unit vectors of all elements together, those of each tensor in columns of its own.

    >>> import adjoint as ad
    >>> _construct_standard_basis_for((ad.zeros(1), ad.zeros(1)), (1, 1))
    (tensor([[1.],
            [0.]]), tensor([[0.],
            [1.]]))
    """
    total, found, before = sum(tensor_numels), [], 0
    for x, count in zip(tensors, tensor_numels, strict=True):
        whole = eye(total, dtype=x.dtype, device=x.device)
        found.append(whole[:, before : before + count].contiguous())
        before += count
    return tuple(found)
