"""What operations are made of, under the path of PyTorch's own compiler."""

from adjoint._decomp import decomposition_table as decompositions  # noqa: F401
from adjoint._decomp import register_decomposition as register_decomposition
