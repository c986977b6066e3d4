"""Weights made sparse while a network trains: PyTorch's `torch.ao.pruning`.

A sparsifier puts a mask on weights and chooses anew, at each `step`, what it leaves out; a
scheduler changes how much that is.
"""

from adjoint.ao.pruning.naming import fqn_to_module as fqn_to_module
from adjoint.ao.pruning.naming import get_arg_info_from_tensor_fqn as get_arg_info_from_tensor_fqn
from adjoint.ao.pruning.naming import module_to_fqn as module_to_fqn
from adjoint.ao.pruning.schedulers import BaseScheduler as BaseScheduler
from adjoint.ao.pruning.schedulers import CubicSL as CubicSL
from adjoint.ao.pruning.schedulers import LambdaSL as LambdaSL
from adjoint.ao.pruning.sparsifiers import BaseSparsifier as BaseSparsifier
from adjoint.ao.pruning.sparsifiers import FakeSparsity as FakeSparsity
from adjoint.ao.pruning.sparsifiers import NearlyDiagonalSparsifier as NearlyDiagonalSparsifier
from adjoint.ao.pruning.sparsifiers import WeightNormSparsifier as WeightNormSparsifier
