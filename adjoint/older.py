"""Top-level names that older programs call, in terms of the functions that took their place."""

from __future__ import annotations

from typing import Any, NoReturn

from adjoint.engine.assembly import find, find_in
from adjoint.engine.core.dtype import int64
from adjoint.engine.tensor.tensor import Tensor
from adjoint.utils.dlpack import to_dlpack as to_dlpack

# What is there: kernels of linear algebra and transforms, and none of these libraries'.
has_lapack = has_spectral = True
has_mkl = has_openmp = False


def compiled_with_cxx11_abi() -> bool:
    """Whether C++ of the newer kind was compiled: no C++ was."""
    return False


def is_vulkan_available() -> bool:
    """No."""
    return False


# -- tensors --------------------------------------------------------------------------------------


def get_device(input: Tensor) -> int:
    """The number of a tensor's GPU; -1 on the CPU."""
    return input.get_device()


def is_signed(input: Tensor) -> bool:
    """Whether a tensor's dtype has negative numbers."""
    return input.is_signed()


def int_repr(input: Any) -> Tensor:
    """The integers a quantised tensor holds."""
    return _quantised("int_repr", input)


def q_scale(input: Any) -> float:
    """The step of a quantised tensor."""
    return _quantised("q_scale", input)


def q_zero_point(input: Any) -> int:
    """The integer that stands for zero in a quantised tensor."""
    return _quantised("q_zero_point", input)


def q_per_channel_scales(input: Any) -> Tensor:
    """The steps of a tensor quantised by channel."""
    return _quantised("q_per_channel_scales", input)


def q_per_channel_zero_points(input: Any) -> Tensor:
    """The integers that stand for zero in a tensor quantised by channel."""
    return _quantised("q_per_channel_zero_points", input)


def q_per_channel_axis(input: Any) -> int:
    """The dimension whose channels a tensor is quantised by."""
    return _quantised("q_per_channel_axis", input)


def _quantised(name: str, x: Any) -> Any:
    read = getattr(x, name, None)
    if read is None:
        raise RuntimeError(f"{name}: expected a quantised tensor, received {type(x).__name__}")
    return read()


def _shape_as_tensor(input: Tensor) -> Tensor:
    """A tensor's sizes as a tensor."""
    return find("tensor")(tuple(input.shape), dtype=int64)


# -- norms and products ---------------------------------------------------------------------------


def frobenius_norm(
    input: Tensor, dim: Any, keepdim: bool = False, *, out: Tensor | None = None
) -> Tensor:
    """The square root of the sum of squares over one or two dimensions."""
    dims = [dim] if isinstance(dim, int) else list(dim)
    if len(dims) > 2:
        raise RuntimeError(f"frobenius_norm: expected at most 2 dimensions, but got {len(dims)}")
    return find_in("linalg", "vector_norm")(input, 2, dims or None, keepdim, out=out)


def nuclear_norm(
    input: Tensor, dim: Any = None, keepdim: bool = False, *, out: Tensor | None = None
) -> Tensor:
    """The sum of a matrix's singular values."""
    if isinstance(dim, bool):  # `nuclear_norm(x, keepdim)`
        dim, keepdim = None, dim
    if dim is None and input.ndim != 2:
        raise RuntimeError(
            f"nuclear_norm: Expected a tensor with 2 dimensions, but got {input.ndim}"
        )
    pair = (0, 1) if dim is None else tuple(dim)
    return find_in("linalg", "matrix_norm")(input, "nuc", pair, keepdim, out=out)


def norm_except_dim(v: Tensor, pow: int = 2, dim: int = 0) -> Tensor:
    """The norm over all dimensions but one, which keep size 1; over all of them for dim -1."""
    if dim == -1:
        return find("norm")(v, pow)
    kept = range(v.ndim)[dim]
    others = [d for d in range(v.ndim) if d != kept]
    return find("norm")(v, pow, others, True) if others else v.abs()


def smm(input: Any, mat: Tensor) -> Any:
    """The product of a sparse and a dense matrix, sparse."""
    rows, product = _sparse_rows("smm", input, mat)
    columns = product.shape[1]
    at = find("stack")(
        [
            rows.repeat_interleave(columns),
            find("arange")(columns, device=rows.device).repeat(len(rows)),
        ]
    )
    shape = (input.shape[0], columns)
    return find("sparse_coo_tensor")(at, product.reshape(-1), shape).coalesce()


def sspaddmm(input: Any, mat1: Any, mat2: Tensor, *, beta: float = 1, alpha: float = 1) -> Any:
    """`beta * input + alpha * (mat1 @ mat2)` of sparse `input` and `mat1`, sparse."""
    product = smm(mat1, mat2) * alpha
    if tuple(input.shape) != tuple(product.shape):
        raise RuntimeError(
            f"sspaddmm: expected input of shape {tuple(product.shape)}, received "
            f"{tuple(input.shape)}"
        )
    return input * beta + product


saddmm = sspaddmm


def hspmm(mat1: Any, mat2: Tensor) -> Any:
    """The product of a sparse and a dense matrix, as sparse rows of dense values."""
    rows, product = _sparse_rows("hspmm", mat1, mat2)
    shape = (mat1.shape[0], mat2.shape[1])
    return find("sparse_coo_tensor")(rows.unsqueeze(0), product, shape).coalesce()


hsmm = hspmm


def _sparse_rows(name: str, mat1: Any, mat2: Tensor) -> tuple[Tensor, Tensor]:
    """The rows of a sparse matrix that hold something, and their products with a dense one."""
    if not mat1.is_sparse or mat2.is_sparse:
        raise RuntimeError(f"{name}: expected a sparse matrix and a dense one, in this order")
    held = mat1.coalesce()
    rows = held.indices()[0].unique()
    return rows, find("mm")(held, mat2)[rows]


# -- layers ---------------------------------------------------------------------------------------


def affine_grid_generator(theta: Tensor, size: Any, align_corners: bool) -> Tensor:
    """Where `grid_sample` should look for an affine map: `nn.functional.affine_grid`."""
    return find_in("nn.functional", "affine_grid")(theta, size, align_corners)


MODES = ("sum", "mean", "max")


def embedding_bag(
    weight: Tensor,
    indices: Tensor,
    offsets: Tensor,
    scale_grad_by_freq: bool = False,
    mode: int = 0,
    sparse: bool = False,
    per_sample_weights: Tensor | None = None,
    include_last_offset: bool = False,
    padding_idx: int | None = None,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Pooled rows of a table, with the bag of each index, the bags' sizes and what max picked.

    Args:
        weight: (rows, features).
        indices: of the rows, one bag after the other.
        offsets: where each bag begins.
        scale_grad_by_freq: divide the gradient of a row by the number of its occurrences.
        mode: 0 sums, 1 averages, 2 takes the largest.
        sparse: whether the gradient of `weight` is a sparse tensor.
        per_sample_weights: a factor for each index, where bags are summed.
        include_last_offset: whether the last offset is the end of the last bag.
        padding_idx: a row that is left out.
    """
    if mode not in (0, 1, 2):
        raise RuntimeError(f"embedding_bag: mode must be 0 (sum), 1 (mean) or 2 (max), not {mode}")
    out = find_in("nn.functional", "embedding_bag")(
        indices,
        weight,
        offsets,
        scale_grad_by_freq=scale_grad_by_freq,
        mode=MODES[mode],
        sparse=sparse,
        per_sample_weights=per_sample_weights,
        include_last_offset=include_last_offset,
        padding_idx=padding_idx,
    )
    begins = offsets[:-1] if include_last_offset else offsets
    places = find("arange")(len(indices), dtype=offsets.dtype, device=offsets.device)
    bag = find("searchsorted")(begins, places, right=True).to(indices.dtype) - 1
    kept = find("ones_like")(bag)
    if padding_idx is not None:
        kept = indices.ne(padding_idx % weight.shape[0]).to(bag.dtype)
    size = bag.new_zeros((len(begins),)).index_add(0, bag, kept)
    return out, bag, size, _largest(weight, indices, bag, kept, len(begins), mode)


def _largest(
    weight: Tensor, indices: Tensor, bag: Tensor, kept: Tensor, bags: int, mode: int
) -> Tensor:
    """Of each bag and feature, the row with the largest entry; of bags of nothing, -1."""
    if mode != 2:
        return indices.new_zeros((0,) if mode == 0 else (bags,))
    rows = weight.detach()[indices]
    picked = indices.new_full((bags, weight.shape[1]), -1)
    for number in range(bags):
        among = ((bag == number) & kept.ne(0)).nonzero().squeeze(1)
        if len(among):
            picked[number] = indices[among][rows[among].argmax(0)]
    return picked


# -- removed functions ----------------------------------------------------------------------------


def _removed(name: str, instead: str) -> NoReturn:
    raise RuntimeError(
        f"{name}: this function was deprecated since version 1.9 of PyTorch and is now removed. "
        f"Use {instead}."
    )


def solve(input: Tensor, A: Tensor, *, out: Any = None) -> NoReturn:
    """Removed: `linalg.solve` takes the matrix first, and gives no factors."""
    _removed("solve", "linalg.solve(A, input), or linalg.lu_factor for the factors")


def lstsq(input: Tensor, A: Tensor, *, out: Any = None) -> NoReturn:
    """Removed: `linalg.lstsq` takes the matrix first, and gives the residuals apart."""
    _removed("lstsq", "linalg.lstsq(A, input)")


def eig(
    self: Tensor, eigenvectors: bool = False, *, e: Any = None, v: Any = None, out: Any = None
) -> NoReturn:
    """Removed: `linalg.eig` gives complex tensors."""
    _removed("eig", "linalg.eig, or linalg.eigvals without the vectors; both give complex tensors")


def symeig(
    input: Tensor, eigenvectors: bool = False, upper: bool = True, *, out: Any = None
) -> NoReturn:
    """Removed: `linalg.eigh` reads the lower triangle unless told otherwise."""
    _removed("symeig", "linalg.eigh(A, UPLO='U'), or linalg.eigvalsh without the vectors")


def matrix_rank(
    input: Tensor, tol: Any = None, symmetric: bool = False, *, out: Any = None
) -> NoReturn:
    """Removed: `linalg.matrix_rank` says `hermitian`."""
    _removed("matrix_rank", "linalg.matrix_rank, whose argument `hermitian` was `symmetric`")
