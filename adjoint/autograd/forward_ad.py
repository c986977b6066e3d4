"""Forward mode by hand: dual levels, dual tensors."""

from adjoint.engine.autodiff.transforms.duals import UnpackedDualTensor as UnpackedDualTensor
from adjoint.engine.autodiff.transforms.duals import dual_level as dual_level
from adjoint.engine.autodiff.transforms.duals import enter_dual_level as enter_dual_level
from adjoint.engine.autodiff.transforms.duals import exit_dual_level as exit_dual_level
from adjoint.engine.autodiff.transforms.duals import make_dual as make_dual
from adjoint.engine.autodiff.transforms.duals import unpack_dual as unpack_dual
