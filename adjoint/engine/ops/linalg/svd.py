"""Singular values, pseudo-inverses and ranks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from adjoint.engine.core.dtype import int64
from adjoint.engine.core.errors import DTypeError
from adjoint.engine.core.operations.families import primitive
from adjoint.engine.core.operations.public import public
from adjoint.engine.core.operations.record import Record, is_tensor
from adjoint.engine.core.operations.return_types import RETURN_TYPES
from adjoint.engine.core.spec import Spec
from adjoint.engine.core.state.context import CONTEXT
from adjoint.engine.ops.linalg.common import (
    MATMUL,
    add_all,
    adjoint_of,
    check_matrix,
    diag,
    ensure_zero,
    matrix_like,
    same_params,
    vector_like,
)
from adjoint.engine.ops.linalg.eigen import EIGVALSH

if TYPE_CHECKING:
    from adjoint.engine.tensor.tensor import Tensor

_PHASE = (
    "svd_backward: The singular vectors in the complex case are specified up to multiplication by "
    "e^{i phi}. The specified loss function depends on this phase term, making it ill-defined. "
    "Make the loss a function of quantities that do not depend on the phase."
)


def _svd_infer(x: Spec, full_matrices: bool) -> tuple[Spec, Spec, Spec]:
    m, n = x.shape[-2:]
    k = min(m, n)
    return (
        matrix_like(x, m, m if full_matrices else k),
        vector_like(x, k, x.dtype.to_real()),
        matrix_like(x, n if full_matrices else k, n),
    )


def _inner_term(g_u: Any, g_vh: Any, U: Tensor, S: Tensor, Vh: Tensor) -> Any:
    """The cotangent of A in the bases U and V, off the diagonal (and its phase on it)."""
    in_u = None if g_u is None else MATMUL(adjoint_of(U), g_u)
    in_v = None if g_vh is None else MATMUL(Vh, adjoint_of(g_vh))
    skew_u = None if in_u is None else in_u - adjoint_of(in_u)
    skew_v = None if in_v is None else in_v - adjoint_of(in_v)
    squares = S * S
    gaps = squares.unsqueeze(-2) - squares.unsqueeze(-1)
    gaps = gaps + gaps.new_eye(gaps.shape[-1])
    middle = add_all(
        None if skew_u is None else skew_u * S.unsqueeze(-2),
        None if skew_v is None else S.unsqueeze(-1) * skew_v,
    )
    middle = (middle / gaps).masked_fill(gaps.new_eye(gaps.shape[-1]) != 0, 0)
    if not U.dtype.is_complex:
        return middle
    phase = add_all(*(None if s is None else diag(s).imag for s in (skew_u, skew_v)))
    middle = ensure_zero(middle, phase, message=_PHASE)
    if skew_u is None:
        return middle
    return middle + (diag(skew_u) / (2 * S)).diag_embed()


def _beyond(g: Tensor, U: Tensor, S: Tensor) -> Tensor:
    """What a cotangent of U has outside the span of U, over the singular values."""
    scaled = g / S.unsqueeze(-2)
    return scaled - MATMUL(U, MATMUL(adjoint_of(U), scaled))


def _svd_vjp(gs: Any, outs: Any, x_spec: Spec) -> Tensor | None:
    m, n = x_spec.shape[-2:]
    k = min(m, n)
    g_u, g_s, g_vh = gs
    U, S, Vh = outs[0][..., :k], outs[1], outs[2][..., :k, :]
    if g_u is None and g_vh is None:
        return None if g_s is None else MATMUL(U * g_s.unsqueeze(-2), Vh)
    g_u = None if g_u is None else g_u[..., :k]
    g_vh = None if g_vh is None else g_vh[..., :k, :]
    middle = _inner_term(g_u, g_vh, U, S, Vh)
    if g_s is not None:
        middle = middle + g_s.to(middle.dtype).diag_embed()
    if m > k and g_u is not None:
        return MATMUL(MATMUL(U, middle) + _beyond(g_u, U, S), Vh)
    if n > k and g_vh is not None:
        right = MATMUL(middle, Vh) + adjoint_of(_beyond(adjoint_of(g_vh), adjoint_of(Vh), S))
        return MATMUL(U, right)
    return MATMUL(MATMUL(U, middle), Vh)


SVD: Record = primitive(
    "svd",
    _svd_infer,
    _svd_vjp,
    outputs=3,
    batched_params=same_params,
    fails="values",
    pulled="host_looped",
)


def _svdvals_vjp(g: Tensor, x: Tensor) -> Tensor:
    """U diag(g) V^H, with vectors that are computed only now."""
    U, _, Vh = SVD(x, full_matrices=False)
    return MATMUL(U * g.unsqueeze(-2), Vh)


# SVDVALS: the values alone, in half the time; those of SVD but for rounding.
SVDVALS: Record = primitive(
    "svdvals",
    lambda x: _svd_infer(x, False)[1],
    _svdvals_vjp,
    batched_params=same_params,
    fails="values",
)


def singular_values(x: Tensor) -> Tensor:
    """Singular values, descending."""
    if CONTEXT.levels or (CONTEXT.grad_enabled and x.requires_grad):
        return SVD(x, full_matrices=False)[1]  # their derivative needs the vectors
    return SVDVALS(x)


@public(namespaces=("linalg",), out=True, name="svd")
def linalg_svd(A: Tensor, full_matrices: bool = True, *, driver: str | None = None) -> Any:
    """U, singular values descending, and V^H with A = U diag(S) V^H."""
    check_matrix("linalg.svd", A)
    if driver is not None:
        raise RuntimeError(
            f"linalg.svd: keyword argument `driver=` is only supported on CUDA inputs with "
            f"cuSOLVER backend, received {driver!r}"
        )
    return RETURN_TYPES["linalg_svd"](*SVD(A, full_matrices=full_matrices))


@public(method=True, out=True)
def svd(input: Tensor, some: bool = True, compute_uv: bool = True) -> Any:
    """U, singular values descending, and V with input = U diag(S) V^H."""
    check_matrix("svd", input)
    if not compute_uv:
        (m, n), batch = input.shape[-2:], tuple(input.shape[:-2])
        S = singular_values(input)
        zeros = [input.new_zeros((*batch, size, size)) for size in (m, n)]
        return RETURN_TYPES["svd"](zeros[0], S, zeros[1])
    U, S, Vh = SVD(input, full_matrices=not some)
    return RETURN_TYPES["svd"](U, S, adjoint_of(Vh))


@public(namespaces=("linalg",), out=True)
def svdvals(A: Tensor, *, driver: str | None = None) -> Tensor:
    """Singular values, descending."""
    check_matrix("linalg.svdvals", A)
    return singular_values(A)


# -- ranks and pseudo-inverses ------------------------------------------------------------------


def _epsilon(x: Any) -> float:
    return 2.0**-52 if x.dtype.to_real().itemsize == 8 else 2.0**-23


def _tolerances(name: str, x: Tensor, atol: Any, rtol: Any) -> tuple[Any, Any]:
    """Absolute and relative tolerance, the second from the size where neither is given."""
    for what, value in (("atol", atol), ("rtol", rtol)):
        if is_tensor(value) and value.dtype.is_complex:
            raise DTypeError(f"{name}: {what} tensor of complex type is not supported.")
    if rtol is None:
        default = _epsilon(x) * max(x.shape[-2:])
        if is_tensor(atol):
            rtol = (atol > 0).logical_not().to(x.dtype.to_real()) * default
        else:
            rtol = default if atol is None or atol <= 0 else 0.0
    return 0.0 if atol is None else atol, rtol


def _column(value: Any) -> Any:
    return value.unsqueeze(-1) if is_tensor(value) else value


def _threshold(largest: Tensor, atol: Any, rtol: Any) -> Tensor:
    """max(atol, rtol * largest), per matrix and with a dimension of size 1 behind."""
    relative = largest * _column(rtol)
    absolute = _column(atol)
    if not is_tensor(absolute):
        return relative.clamp(min=absolute) if absolute > 0 else relative
    return relative.maximum(absolute.to(relative.dtype))


@public(namespaces=("linalg",), out=True)
def matrix_rank(
    input: Tensor,
    tol: Any = None,
    hermitian: bool = False,
    *,
    atol: Any = None,
    rtol: Any = None,
) -> Tensor:
    """How many singular values exceed the tolerance."""
    name = "linalg.matrix_rank"
    check_matrix(name, input, square=hermitian)
    if tol is not None:
        if is_tensor(tol) and tol.dtype.is_complex:
            raise DTypeError(f"{name}: atol tensor of complex type is not supported.")
        atol, rtol = tol, 0.0
    atol, rtol = _tolerances(name, input, atol, rtol)
    if 0 in input.shape[-2:]:
        return input.new_zeros(tuple(input.shape[:-2]), dtype=int64)
    if hermitian:
        values = EIGVALSH(input.detach(), upper=False).abs()
        largest = values.amax(-1, keepdim=True)
    else:
        values = singular_values(input.detach())
        largest = values[..., :1]
    return (values > _threshold(largest, atol, rtol)).sum(-1)


def _pinv_infer(x: Spec, *tolerances: Any, hermitian: bool) -> Spec:
    m, n = x.shape[-2:]
    return matrix_like(x, n, m)


def pinv_pull(g: Tensor, A: Tensor, P: Tensor) -> Tensor:
    """The cotangent of A from that of its pseudo-inverse P."""
    gh, Ph = adjoint_of(g), adjoint_of(P)
    if A.shape[-2] <= A.shape[-1]:
        K = MATMUL(gh, P)
        KPh = MATMUL(K, Ph)
        return (
            KPh
            - adjoint_of(MATMUL(P, K))
            - MATMUL(MATMUL(A, P), KPh)
            + MATMUL(MATMUL(Ph, P), gh - MATMUL(K, A))
        )
    K = MATMUL(P, gh)
    PhK = MATMUL(Ph, K)
    return (
        PhK
        - adjoint_of(MATMUL(K, P))
        + MATMUL(MATMUL(gh - MATMUL(A, K), P), Ph)
        - MATMUL(MATMUL(PhK, P), A)
    )


def _pinv_batch(size: int, x: Tensor, *tolerances: Any, hermitian: bool) -> Tensor:
    return PINV(x, *tolerances, hermitian=hermitian)


# PINV(x, atol, rtol): tolerances are numbers, or tensors with one per matrix.
PINV: Record = primitive(
    "pinv",
    _pinv_infer,
    lambda g, x, out: pinv_pull(g, x, out),
    None,
    None,
    operands=("x", "atol", "rtol"),
    batch=_pinv_batch,
    pulled="host_looped",
)


@public(namespaces=("linalg",), out=True)
def pinv(
    input: Tensor,
    rcond: Any = None,
    hermitian: bool = False,
    *,
    atol: Any = None,
    rtol: Any = None,
) -> Tensor:
    """The Moore-Penrose pseudo-inverse; small singular values count as zero."""
    name = "linalg.pinv"
    check_matrix(name, input, square=hermitian)
    if rcond is not None:
        atol, rtol = 0.0, rcond
    atol, rtol = _tolerances(name, input, atol, rtol)
    batch = tuple(input.shape[:-2])
    atol, rtol = (
        t.to(input.dtype.to_real()).expand(batch) if is_tensor(t) else t for t in (atol, rtol)
    )
    return PINV(input, atol, rtol, hermitian=hermitian)


@public(method=True)
def pinverse(input: Tensor, rcond: float = 1e-15) -> Tensor:
    """The Moore-Penrose pseudo-inverse."""
    return pinv(input, rcond)
