"""Forward mode by hand: dual levels, dual tensors."""

from adjoint.autodiff.duals import UnpackedDualTensor as UnpackedDualTensor
from adjoint.autodiff.duals import dual_level as dual_level
from adjoint.autodiff.duals import enter_dual_level as enter_dual_level
from adjoint.autodiff.duals import exit_dual_level as exit_dual_level
from adjoint.autodiff.duals import make_dual as make_dual
from adjoint.autodiff.duals import unpack_dual as unpack_dual
