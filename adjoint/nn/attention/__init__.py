"""Which implementation attention may use, as PyTorch asks it; Adjoint has one, `MATH`."""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum

from adjoint.backends.cuda import SDPAParams as SDPAParams
from adjoint.backends.cuda import can_use_efficient_attention as can_use_efficient_attention
from adjoint.backends.cuda import can_use_flash_attention as can_use_flash_attention
from adjoint.engine.core.state.switches import SwitchOverride


class SDPBackend(IntEnum):
    """PyTorch's implementations of attention; they differ in speed and memory alone."""

    ERROR = -1
    MATH = 0
    FLASH_ATTENTION = 1
    EFFICIENT_ATTENTION = 2
    CUDNN_ATTENTION = 3
    OVERRIDEABLE = 4


# The switches of `backends.cuda` that allow each.
_SWITCHES = {
    SDPBackend.MATH: "backends.cuda.enable_math_sdp",
    SDPBackend.FLASH_ATTENTION: "backends.cuda.enable_flash_sdp",
    SDPBackend.EFFICIENT_ATTENTION: "backends.cuda.enable_mem_efficient_sdp",
    SDPBackend.CUDNN_ATTENTION: "backends.cuda.enable_cudnn_sdp",
}


def sdpa_kernel(
    backends: SDPBackend | Sequence[SDPBackend], set_priority: bool = False
) -> SwitchOverride:
    """Choose implementations inside a `with` block; without `MATH` among them it has no effect.

    Results are the same whichever is chosen, and a block that leaves out `MATH` says once that
    attention is computed that way all the same.

    Example:
        >>> import adjoint as ad
        >>> q = ad.ones(1, 1, 2, 4)
        >>> with sdpa_kernel(SDPBackend.MATH):
        ...     ad.nn.functional.scaled_dot_product_attention(q, q, q).shape
        adjoint.Size([1, 1, 2, 4])
    """
    given = [backends] if isinstance(backends, SDPBackend) else list(backends)
    if not given or not all(isinstance(b, SDPBackend) for b in given):
        raise TypeError(f"sdpa_kernel: expected SDPBackend or a list of them, received {backends}")
    return SwitchOverride({switch: kind in given for kind, switch in _SWITCHES.items()})


def list_flash_attention_impls() -> list[str]:
    """The flash attentions that could be chosen: none."""
    return []


def current_flash_attention_impl() -> str | None:
    """The flash attention that was chosen: none can be."""
    return None
