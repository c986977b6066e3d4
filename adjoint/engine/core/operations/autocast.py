"""PyTorch's autocast lists: which functions compute in which precision, by device.

Note [autocast]
    While autocast is on, a public function named here casts its tensors and then runs with autocast
    off, as PyTorch's does; the entry for the tensors' device counts. A record has the policies of
    the function of its name, for what is reached without it: operators, layers, compositions.
        lower    to the region's dtype        fp32   halves to float32
        promote  to the widest of the tensors' dtypes
        keep     no cast, and none inside     banned  an error: unsafe in half precision
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from adjoint.engine.core.state.context import CONTEXT

_LOWER = """
    conv1d conv2d conv3d conv_tbc conv_transpose1d conv_transpose2d conv_transpose3d prelu addmm
    matmul mm vecdot linear addbmm baddbmm bmm scaled_dot_product_attention
"""
_LOWER_CUDA = """
    addmv addr mv einsum chain_matmul multi_dot lstm_cell gru_cell rnn_tanh_cell rnn_relu_cell
"""
_KEEP_CPU = "addmv addr bilinear mv dot vdot"
_FP32_CUDA = """
    acos asin cosh erfinv exp expm1 log log10 log2 log1p reciprocal rsqrt sinh tan pow softplus
    layer_norm rms_norm group_norm cosine_similarity poisson_nll_loss
    cosine_embedding_loss nll_loss hinge_embedding_loss kl_div l1_loss smooth_l1_loss huber_loss
    mse_loss margin_ranking_loss multilabel_margin_loss soft_margin_loss triplet_margin_loss
    multi_margin_loss binary_cross_entropy_with_logits cross_entropy dist pdist cdist renorm
    logsumexp upsample_nearest upsample_bilinear interpolate prod softmax log_softmax softmin
    cumprod cumsum vector_norm matrix_norm norm sum
"""
_FP32_CPU = """
    avg_pool3d binary_cross_entropy grid_sampler grid_sampler_2d grid_sampler_3d grid_sample polar
    prod quantile nanquantile stft cdist trace view_as_complex cholesky cholesky_inverse
    cholesky_solve inverse inv lu_solve orgqr ormqr pinverse max_pool3d max_unpool2d max_unpool3d
    adaptive_avg_pool3d replication_pad mse_loss cosine_embedding_loss nll_loss hinge_embedding_loss
    poisson_nll_loss smooth_l1_loss cross_entropy l1_loss huber_loss margin_ranking_loss
    soft_margin_loss triplet_margin_loss multi_margin_loss ctc_loss kl_div multilabel_margin_loss
    multilabel_soft_margin_loss gaussian_nll_loss
    binary_cross_entropy_with_logits fft ifft fft2 ifft2 fftn ifftn rfft irfft rfft2 irfft2 rfftn
    irfftn hfft ihfft cond matrix_rank solve svdvals eigvals eigvalsh householder_product tensorinv
    tensorsolve geqrf qr svd triangular_solve fractional_max_pool2d fractional_max_pool3d
    adaptive_max_pool3d cholesky_ex eig eigh lstsq inv_ex
"""
_PROMOTE_CUDA = """
    addcdiv addcmul atan2 bilinear cross dot vdot grid_sampler grid_sample index_put tensordot
    scatter_add
"""
_PROMOTE_CPU = "stack cat index_copy"


def _table() -> dict[str, dict[str, str]]:
    table: dict[str, dict[str, str]] = {}
    for device, policy, names in (
        ("cpu", "lower", _LOWER),
        ("cuda", "lower", _LOWER + _LOWER_CUDA),
        ("cpu", "keep", _KEEP_CPU),
        ("cuda", "fp32", _FP32_CUDA),
        ("cpu", "fp32", _FP32_CPU),
        ("cuda", "banned", "binary_cross_entropy"),
        ("cuda", "promote", _PROMOTE_CUDA),
        ("cpu", "promote", _PROMOTE_CPU),
    ):
        for name in names.split():
            table.setdefault(name, {})[device] = policy
    return table


FUNCTIONS = _table()  # function name -> device type -> policy
# Functions whose records leave operands as they are: the function has cast them, or the record
# of that name is another operation.
_FUNCTIONS_ALONE = """
    view_as_complex cholesky cholesky_solve inv fft rfft irfft cond solve geqrf qr svd
    triangular_solve eig eigh lstsq index_put
"""
# Records that differ from the function of their name, or that no function is named after.
_RECORDS_ALONE = {
    "cat": {"cpu": "promote", "cuda": "promote"},
    "stack": {"cpu": "promote", "cuda": "promote"},
    "p_norm": {"cuda": "fp32"},
    "convolution": {"cpu": "lower", "cuda": "lower"},
    "convolution_transpose": {"cpu": "lower", "cuda": "lower"},
    "convolution_weight": {"cpu": "lower", "cuda": "lower"},
    "grid_sampler": {"cpu": "fp32", "cuda": "fp32"},
    "affine_grid": {"cpu": "lower", "cuda": "lower"},  # in PyTorch it is a product of matrices
    "binary_cross_entropy": {"cpu": "fp32", "cuda": "fp32"},
    "ctc_loss": {"cpu": "fp32", "cuda": "fp32"},
    "ctc_loss_small": {"cpu": "fp32", "cuda": "fp32"},
    "ctc_loss_program": {"cpu": "fp32", "cuda": "fp32"},
    "bilinear": {"cuda": "lower"},
}
RECORDS = {  # record name -> device type -> policy
    **{name: row for name, row in FUNCTIONS.items() if name not in _FUNCTIONS_ALONE.split()},
    **_RECORDS_ALONE,
}


# Composites none of whose parts have a policy on the CPU, where they have none themselves.
CALM_ON_CPU = frozenset(
    "batch_norm batch_norm_inference elu embedding gelu group_norm hardshrink hardsigmoid "
    "hardswish hardtanh instance_norm layer_norm leaky_relu log_sigmoid log_softmax logsumexp max "
    "mean min mish rms_norm silu softmax softplus softsign std tanhshrink var".split()
)


# Of a record that computes in a lower precision on a GPU: the one that is given its operands as
# they are, and the dtype. Casts are then no operations of their own.
LOWERED: dict[str, Any] = {}
_BY_RECORD = frozenset({"linear"})  # functions that leave their casts to such a record


# Of a function that computes in float32: the one that is given halves as they are, on a GPU. No
# copy of them in float32 is made, nor of their gradient.
WIDENED: dict[str, Callable[..., Any]] = {}


def casts_itself(name: str, device: str, policy: str) -> bool:
    """Whether a function's record sees to its casts."""
    return device == "cuda" and policy == "lower" and name in _BY_RECORD and CONTEXT.settled


def widens_itself(
    fn: Callable[..., Any], device: str, policy: str, args: tuple[Any, ...]
) -> Callable[..., Any] | None:
    """The function that takes halves in the place of one that would have them cast, if any."""
    if device != "cuda" or policy != "fp32" or not CONTEXT.settled or len(args) < 2:
        return None
    return WIDENED.get(fn.__name__)


def with_autocast(name: str, fn: Callable[..., Any]) -> Callable[..., Any]:
    """`fn`, casting its tensors while autocast is on, if PyTorch's lists have its name."""
    policies = FUNCTIONS.get(name)
    if policies is None:
        return fn

    @functools.wraps(fn)
    def variant(*args: Any, **kwargs: Any) -> Any:
        autocast = CONTEXT.autocast
        if autocast is None:
            return fn(*args, **kwargs)
        return autocast.call(policies, fn, args, kwargs)

    return variant
