"""From how many elements on an eager operation runs as a compiled fragment (Note [fragments]).

A fragment costs about eight microseconds a call, so the more an operation does with an element,
the fewer are enough. `ADJOINT_FRAGMENTS` in the environment sets one number for all of them: 0 has
every operation run by the eager table, 1 every one that can be a fragment be one.
"""

from __future__ import annotations

import os

STREAMED, COMPUTED = 1 << 17, 1 << 13

_REDUCED = "sum amax amin"
_WHOLE = (
    "matmul linear convolution convolution_transpose convolution_weight max_pool "
    "scaled_dot_product_attention scaled_dot_product_attention_backward "
    "lstm_gates lstm_gates_backward gru_gates gru_gates_backward "
    "var std p_norm softmax log_softmax logsumexp gelu silu mish softplus log_sigmoid elu glu "
    "softsign tanhshrink leaky_relu hardtanh hardsigmoid hardswish softshrink "
    "layer_norm rms_norm group_norm batch_norm instance_norm batch_norm_inference "
    "mse_loss l1_loss huber_loss smooth_l1_loss poisson_nll_loss nll_loss cross_entropy "
    "binary_cross_entropy binary_cross_entropy_with_logits kl_div cosine_similarity"
)

_LARGE = {**dict.fromkeys(_REDUCED.split(), STREAMED), **dict.fromkeys(_WHOLE.split(), COMPUTED)}


def _asked_for() -> int | None:
    """What the environment says."""
    text = os.environ.get("ADJOINT_FRAGMENTS", "").strip()
    if text and not text.isdecimal():
        raise ValueError(f"ADJOINT_FRAGMENTS: expected a number of elements, received {text!r}")
    return int(text) if text else None


_ASKED = _asked_for()
UPDATED = COMPUTED if _ASKED is None else _ASKED  # of an optimizer's parameter; 0: never


def large(name: str, family: str, cost: str, draws: bool) -> int:
    """How many elements an operand must have; 0: whatever it has, it is no fragment."""
    found = _LARGE.get(name, 0)
    if family == "elementwise" and not draws:
        found = COMPUTED if cost == "function" else STREAMED
    return found if _ASKED is None or not found else _ASKED
