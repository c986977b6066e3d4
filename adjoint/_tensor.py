"""PyTorch's path to the class, and to what its pickles call."""

from adjoint.engine.tensor.tensor import Tensor as Tensor
from adjoint.io.rebuilding import rebuild_from_type_v2 as _rebuild_from_type_v2  # noqa: F401
from adjoint.overrides import get_default_nowrap_functions as get_default_nowrap_functions
from adjoint.overrides import handle_torch_function as handle_torch_function
from adjoint.overrides import has_torch_function as has_torch_function
from adjoint.overrides import has_torch_function_unary as has_torch_function_unary
from adjoint.overrides import has_torch_function_variadic as has_torch_function_variadic
