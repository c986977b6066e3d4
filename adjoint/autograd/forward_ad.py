"""Forward mode by hand: dual levels, dual tensors."""

from __future__ import annotations

from adjoint.engine.autodiff.transforms.duals import UnpackedDualTensor as UnpackedDualTensor
from adjoint.engine.autodiff.transforms.duals import current_level
from adjoint.engine.autodiff.transforms.duals import dual_level as dual_level
from adjoint.engine.autodiff.transforms.duals import enter_dual_level as enter_dual_level
from adjoint.engine.autodiff.transforms.duals import exit_dual_level as exit_dual_level
from adjoint.engine.autodiff.transforms.duals import make_dual as make_dual
from adjoint.engine.autodiff.transforms.duals import unpack_dual as unpack_dual
from adjoint.engine.core.state.loading import lacking as _lacking


def __getattr__(name: str) -> int:
    """`_current_level`: the level that this thread is in, -1 where in none."""
    if name != "_current_level":
        raise _lacking(__name__, name)
    return current_level()
