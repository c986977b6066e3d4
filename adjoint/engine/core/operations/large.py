"""From how many elements on an eager operation runs as a compiled fragment (Note [fragments]).

A fragment costs about ten microseconds a call, so the more an operation does with an element, the
fewer are enough; one that is composed of many saves a call of NumPy for each of them.
`ADJOINT_FRAGMENTS` in the environment sets one number for all: 0 has every operation run by the
eager table, 1 every one that can be a fragment be one.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from numpy import ndarray

STREAMED, COMPUTED, COMPOSED = 1 << 16, 1 << 13, 1 << 10

_REDUCED = "sum amax amin"
_WHOLE = (
    "matmul linear convolution convolution_transpose convolution_weight max_pool "
    "lstm_gates lstm_gates_backward gru_gates gru_gates_backward "
    "gelu silu mish softplus log_sigmoid elu glu "
    "softsign tanhshrink leaky_relu hardtanh hardsigmoid hardswish softshrink "
)
_COMPOSED = (
    "random scaled_dot_product_attention scaled_dot_product_attention_backward "
    "var std p_norm softmax log_softmax logsumexp "
    "layer_norm rms_norm group_norm batch_norm instance_norm batch_norm_inference "
    "mse_loss l1_loss huber_loss smooth_l1_loss poisson_nll_loss nll_loss cross_entropy "
    "binary_cross_entropy binary_cross_entropy_with_logits kl_div cosine_similarity "
    "argsort topk sort largest extreme kthvalue argmedian median gather"
)

# On a GPU alone: there a copy or a look-up that is not checked by the host is worth it.
_ON_DEVICE = frozenset(
    "addmm autocast_addmm autocast_linear cast clone cat stack max_pool_backward "
    "index index_put gather scatter scatter_reduce slice view_scatter "
    "cumsum cumprod logcumsumexp linear_scan cumextreme integer_matmul "
    "flip roll tril triu argmax argmin any all key_ranges "
    "lstm_layer gru_layer plain_layer resample_all".split()
)
# What libraries do better there than kernels of a fragment.
LIBRARIES = frozenset({"convolution", "convolution_transpose", "convolution_weight"})
# Those of them whose derivative puts values into zeros, which a program need not make first.
FILLED = frozenset({"slice", "index", "gather"})

# Composites that are products of rows, given another shape at the end (`fragments.as_made`).
IN_ROWS = frozenset({"linear", "addmm", "autocast_linear", "autocast_addmm"})

# Composites whose results lie row after row, however their operands lie: to find that out by trying
# would take memory that a fragment does without.
ROW_BY_ROW = frozenset({"scaled_dot_product_attention", "scaled_dot_product_attention_backward"})

_LARGE = {
    **dict.fromkeys(_REDUCED.split(), STREAMED),
    **dict.fromkeys(_WHOLE.split(), COMPUTED),
    **dict.fromkeys(_COMPOSED.split(), COMPOSED),
}


def _asked_for() -> int | None:
    """What the environment says."""
    text = os.environ.get("ADJOINT_FRAGMENTS", "").strip()
    if text and not text.isdecimal():
        raise ValueError(f"ADJOINT_FRAGMENTS: expected a number of elements, received {text!r}")
    return int(text) if text else None


# Kernels of several steps, worth a program for few elements (Note [straight programs]) though they
# are no composites.
STRAIGHT = frozenset(
    "convolution convolution_transpose convolution_weight max_pool resample "
    "sum amax amin gather scatter index index_put sigmoid clamp".split()
)

_ASKED = _asked_for()
# On a GPU a fragment is one launch or a few, whatever the size, and costs the host less than the
# operations it is made of. 0: never
ON_DEVICE = 1 if _ASKED is None else _ASKED
# By class of a device's arrays, of those whose operations can be fragments: which device it is on,
# and whether its address is no multiple of 64.
DEVICE_LAYOUTS: dict[Any, Callable[[Any], tuple[int, bool]]] = {}
# Of an optimizer's parameter, or of several that are updated together; 0: never
UPDATED = 2 * COMPOSED if _ASKED is None else _ASKED


def large(name: str, family: str, cost: str, draws: bool) -> int:
    """How many elements an operand must have; 0: whatever it has, it is no fragment."""
    limit = _LARGE.get(name, 0)
    if family == "elementwise" and not draws:
        limit = COMPUTED if cost == "function" else STREAMED
    return limit if _ASKED is None or not limit else _ASKED


def is_large(array: Any, limit: int) -> bool:
    """Whether an array in the CPU's memory has as many elements as a fragment needs."""
    return array.__class__ is ndarray and 0 < limit <= array.size


def on_device(name: str, least: int) -> int:
    """The same on a GPU, of a record that on the CPU needs `least`."""
    return ON_DEVICE if (least or name in _ON_DEVICE) and name not in LIBRARIES else 0
