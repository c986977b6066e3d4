"""What a tensor is inside a transform, under PyTorch's names."""

from __future__ import annotations

from typing import Any

from adjoint.engine.autodiff.levels.grad_level import GradLevel
from adjoint.engine.autodiff.levels.stack import debug_unwrap, next_depth
from adjoint.engine.autodiff.levels.vmap_level import VmapLevel
from adjoint.engine.core.operations.record import is_tensor
from adjoint.engine.core.state.context import CONTEXT
from adjoint.engine.tensor.writing.mutation import make_argument, payload


def _level(tensor: Any) -> Any:
    return tensor._storage.level if is_tensor(tensor) else None


def is_batchedtensor(tensor: Any) -> bool:
    """Whether `vmap` maps over a tensor.

    Example:
        >>> import adjoint as ad
        >>> ad.vmap(lambda x: x + is_batchedtensor(x))(ad.zeros(2))
        tensor([1., 1.])
    """
    return isinstance(_level(tensor), VmapLevel)


def is_gradtrackingtensor(tensor: Any) -> bool:
    """Whether `grad` or `jvp` differentiates by a tensor."""
    return isinstance(_level(tensor), GradLevel)


def is_functorch_wrapped_tensor(tensor: Any) -> bool:
    """Whether a tensor belongs to a transform."""
    return _level(tensor) is not None


def is_legacy_batchedtensor(tensor: Any) -> bool:
    """No: there is one kind of `vmap`."""
    return False


def maybe_get_level(tensor: Any) -> int:
    """The depth of a tensor's transform, -1 outside of all."""
    level = _level(tensor)
    return -1 if level is None else int(level.depth)


def maybe_get_bdim(tensor: Any) -> int:
    """Which dimension of what a tensor stands for is mapped over, -1 if none."""
    return 0 if is_batchedtensor(tensor) else -1


def get_unwrapped(tensor: Any) -> Any:
    """What a tensor stands for one transform further out."""
    return debug_unwrap(tensor, recurse=False)


def _at(depth: int) -> VmapLevel:
    for level in CONTEXT.levels:
        if level.depth == depth and isinstance(level, VmapLevel):
            return level
    raise RuntimeError(f"there is no vmap under way at level {depth}")


def _add_batch_dim(tensor: Any, in_dim: int, level: int) -> Any:
    """A tensor as the `vmap` of a level sees it: without the dimension it maps over."""
    at = _at(level)
    return make_argument(at, at.wrap_payload(tensor.movedim(in_dim, 0)))


def _remove_batch_dim(tensor: Any, level: int, batch_size: int, out_dim: int) -> Any:
    """The opposite; a tensor that is not mapped over is expanded."""
    batch_level = _at(level)
    whole = payload(tensor) if _level(tensor) is batch_level else batch_level.lift(tensor)
    return whole.movedim(0, out_dim)


def _vmap_increment_nesting(batch_size: int, randomness: str) -> int:
    """Begin a `vmap`; `_vmap_decrement_nesting` ends it."""
    level = VmapLevel(next_depth(), batch_size, randomness)
    level.outer_grad = CONTEXT.grad_enabled
    CONTEXT.set(levels=(*CONTEXT.levels, level))
    return level.depth


def _vmap_decrement_nesting() -> int:
    """End the innermost transform."""
    level = CONTEXT.levels[-1]
    level.active = False
    CONTEXT.set(levels=CONTEXT.levels[:-1])
    return level.depth
