"""`out=`: results written into tensors the caller provides."""

from __future__ import annotations

import warnings
from typing import Any

from numpy import ndarray

from adjoint.engine.core.dtype import can_cast, uint8
from adjoint.engine.core.errors import DeviceError, DTypeError, DTypeTypeError
from adjoint.engine.core.layout import is_dense
from adjoint.engine.core.operations.record import HOOKS, is_tensor
from adjoint.engine.core.operations.small_calls import ELEMENTWISE, JOINING, SPECIAL
from adjoint.engine.core.state.context import CONTEXT
from adjoint.engine.tensor.tensor import Tensor
from adjoint.engine.tensor.writing.mutation import direct_array, overwrite, write

# Functions whose result is not converted for the sake of `out`, as PyTorch has it; nor is any of
# several results, nor one whose dtype was asked for.
EXACT = frozenset(
    "abs absolute addbmm addmm addmv alias_copy amax amin argmax argmin as_strided_copy avg_pool2d "
    "avg_pool3d baddbmm bitwise_not bmm bucketize ceil chain_matmul cholesky clamp clamp_max "
    "clamp_min clip complex conj_physical cross det detach_copy diag diagonal_copy dot eigvalsh "
    "expand_copy fix float_power floor frac gather gelu hardshrink heaviside histc index_add "
    "index_copy index_reduce index_select inner inv inverse isin isneginf isposinf ldl_solve "
    "linear log_softmax logcumsumexp logsigmoid lu_solve masked_select matmul matrix_norm "
    "matrix_power mm msort multi_dot multinomial mv nan_to_num nanquantile narrow_copy neg "
    "negative nonzero nonzero_static norm ormqr permute_copy polar quantile renorm round scatter "
    "scatter_add scatter_reduce searchsorted select_copy sgn sign signbit slice_copy "
    "slice_scatter softmax softplus softshrink solve solve_triangular squeeze_copy svdvals t_copy "
    "take take_along_dim tensordot transpose_copy tril triu trunc unfold_copy unsqueeze_copy vdot "
    "vecdot vector_norm view_as_complex_copy view_as_real_copy view_copy where".split()
)
TRUTHS = frozenset({"all", "any"})  # theirs may be bytes as well
# Those that make `out` as large as they need without a word.
UNTOLD = frozenset(
    "addbmm bernoulli empty eye full linspace logspace multinomial ones rand randint randn "
    "randperm range zeros".split()
)
# Those whose result lies row by row in an `out` that is resized, however it would lie alone.
ROW_BY_ROW = frozenset({"addmm", "kron", "matrix_power", "renorm"})
# Those that refuse an `out` that shares some of its memory with an operand. What other functions
# give is right, as results are computed apart.
APART = (
    frozenset(
        f"{ELEMENTWISE} {SPECIAL} addr cross cumprod cumsum gather ger index_add index_copy "
        "index_select kron logcumsumexp masked_select nonzero outer renorm scatter scatter_add "
        "take take_along_dim".split()
    )
    | JOINING
) - {"chain_matmul", "multi_dot", "multigammaln", "mvlgamma", "ndtr"}


def assign_out(name: str, out: Any, result: Any, operands: Any = (), *, exact: bool = False) -> Any:
    """Put `result` into `out`, resizing it if need be; returns what the function returns.

    `operands` are what the result was computed of; `exact` says that its dtype was asked for.
    """
    if isinstance(result, tuple):
        if not isinstance(out, (tuple, list)) or len(out) != len(result):
            raise TypeError(
                f"{name}: out= expects a tuple of {len(result)} tensors, received "
                f"{type(out).__name__}"
            )
        for o, r in zip(out, result, strict=True):
            _check(name, o, r, operands, exact=name != "geqrf")
        filled = [_fill(name, o, r) for o, r in zip(out, result, strict=True)]
        return type(result)(*filled) if hasattr(result, "_fields") else tuple(filled)
    _check(name, out, result, operands, exact=exact or name in EXACT)
    return _fill(name, out, result)


def _check(name: str, out: Any, result: Tensor, operands: Any, exact: bool) -> None:
    """Refuse an `out` that a result is not put into; nothing is written before."""
    if not is_tensor(out):
        raise TypeError(f"{name}: argument 'out' must be Tensor, not {type(out).__name__}")
    if out.dtype is not result.dtype:
        wrong = exact and not (name in ("abs", "absolute") and operands[0].dtype.is_complex)
        if name in TRUTHS:
            wrong = out.dtype is not uint8
        if wrong:
            raise DTypeError(
                f"{name}: expected out tensor to have dtype {result.dtype.name}, but got "
                f"{out.dtype.name} instead. Convert the result of the form without out=."
            )
    for x in operands:
        for each in x if x.__class__ in (list, tuple) else (x,):
            if is_tensor(each) and each._storage is out._storage:
                _check_apart(name, out, result, each)


def _check_apart(name: str, out: Tensor, result: Tensor, operand: Tensor) -> None:
    """Refuse an `out` of an operand's storage, unless it is that operand, of the result's shape."""
    begin, end = _extent(out)
    first, last = _extent(operand)
    if max(begin, first) >= min(end, last):
        return  # nothing is in both
    if out.shape != result.shape:
        raise RuntimeError(
            f"{name}: output with shape {list(out.shape)} doesn't match the broadcast shape "
            f"{list(result.shape)}: it shares memory with an operand, so it is not resized. "
            "Use another tensor for out=."
        )
    same = begin == first and out.shape == operand.shape and out.stride() == operand.stride()
    dense = all(is_dense(x.shape, x.stride()) for x in (out, operand))
    if dense and not same and name in APART:
        raise RuntimeError(
            f"{name}: unsupported operation: some elements of the input tensor and the written-to "
            "tensor refer to a single memory location. Please clone() the tensor before performing "
            "the operation."
        )


def _extent(x: Tensor) -> tuple[int, int]:
    """The bytes of its storage that a tensor's elements lie in: the first, and the one behind."""
    size, begin = x.dtype.itemsize, x.storage_offset()
    reach = sum((n - 1) * step for n, step in zip(x.shape, x.stride(), strict=True))
    return size * begin, size * (begin + reach + 1) if x.numel() else size * begin


def _filled_at_once(out: Tensor, result: Tensor) -> bool:
    """Whether a result that is like `out` was put there with nobody to tell of it."""
    array, source = out._array, result._array
    if array.__class__ is not ndarray or source.__class__ is not ndarray:
        return False
    if array.dtype is not source.dtype or array.shape != source.shape:
        return False
    if result._requires_grad or result._base is not None or not array.flags.writeable:
        return False
    if not CONTEXT.plain or direct_array(out) is None:
        return False
    overwrite(out, array, source)
    return True


def _fill(name: str, out: Any, result: Tensor) -> Tensor:
    if _filled_at_once(out, result):
        return out
    if CONTEXT.grad_enabled and (out.requires_grad or result.requires_grad):
        raise RuntimeError(
            f"{name}: functions with out=... arguments don't support automatic differentiation, "
            "but one of the arguments requires grad. Use the form without out=, or no_grad()."
        )
    if not can_cast(result.dtype, out.dtype) and name != "bernoulli":
        kind = DTypeTypeError if name in ("cat", "concatenate") else DTypeError
        raise kind(
            f"{name}: result type {result.dtype.name} can't be cast to the desired output type "
            f"{out.dtype.name}"
        )
    if out.device != result.device:
        raise DeviceError(
            f"{name}: expected out tensor to have device {result.device}, but got {out.device}"
        )
    if out.shape != result.shape:
        result = result.contiguous() if name in ROW_BY_ROW else result
        if out.numel() and name not in UNTOLD:
            warnings.warn(
                "An output with one or more elements was resized since it had shape "
                f"{list(out.shape)}, which does not match the required output shape "
                f"{list(result.shape)}. Resize it first with out.resize_(0).",
                stacklevel=4,
            )
        elif (
            CONTEXT.capture is not None and not out.numel()
        ):  # a graph's values keep their sizes: another one is shown
            return out.set_(result.detach().to(out.dtype))
        out.resize_(result.shape)
        if out.stride() != result.stride() and is_dense(result.shape, result.stride()):
            out.as_strided_(result.shape, result.stride(), out.storage_offset())
    return write(out, result.detach().to(out.dtype))


HOOKS.assign_out = assign_out
