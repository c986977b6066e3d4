"""Adjoint."""
from adjoint.autodiff import func, hooks, modes, reverse
from adjoint.autodiff.modes import no_grad
from adjoint.backends.array import buffers, executor, kernels
from adjoint.backends.array.buffers import from_data
from adjoint.core.dtype import *
from adjoint.core.dtype import bool_ as bool
from adjoint.core.public import PUBLIC
from adjoint.ops import convert, creation, elementwise, index, join, matmul, reduction, softmax as _s, views
from adjoint.tensor import info
from adjoint.tensor.install import install
from adjoint.tensor.tensor import Tensor

install()
for (_space, _name), _public in PUBLIC.items():
    if _space == "":
        globals()[_name] = _public.fn

def tensor(data, *, dtype=None, requires_grad=False):
    t = from_data(data, dtype)
    return t.requires_grad_() if requires_grad else t
