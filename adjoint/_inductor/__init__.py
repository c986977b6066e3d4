"""What libraries set and register with PyTorch's own compiler; `compile` here is Adjoint's."""

from adjoint._inductor import config as config
from adjoint._inductor import decomposition as decomposition
