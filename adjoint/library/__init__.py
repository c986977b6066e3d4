"""Your own operations, kernels and devices: PyTorch's `torch.library`.

Example:
    >>> import adjoint as ad
    >>> @custom_op("docs::twice", mutates_args=())
    ... def twice(x: ad.Tensor) -> ad.Tensor:
    ...     return x * 2
    >>> twice.register_autograd(lambda ctx, g: g * 2)
    >>> x = ad.ones(2, requires_grad=True)
    >>> twice(x).sum().backward()
    >>> x.grad, ad.ops.docs.twice(x).tolist()
    (tensor([2., 2.]), [2.0, 2.0])
"""

from adjoint.engine.backends.array.devices import ArrayDevice as ArrayDevice
from adjoint.engine.backends.array.devices import register_device as register_device
from adjoint.library.checking import opcheck as opcheck
from adjoint.library.custom import OPERATIONS as OPERATIONS
from adjoint.library.custom import CustomOpDef as CustomOpDef
from adjoint.library.functions import Library as Library
from adjoint.library.functions import _scoped_library as _scoped_library
from adjoint.library.functions import custom_op as custom_op
from adjoint.library.functions import define as define
from adjoint.library.functions import get_ctx as get_ctx
from adjoint.library.functions import impl as impl
from adjoint.library.functions import impl_abstract as impl_abstract
from adjoint.library.functions import infer_schema as infer_schema
from adjoint.library.functions import register_autocast as register_autocast
from adjoint.library.functions import register_autograd as register_autograd
from adjoint.library.functions import register_fake as register_fake
from adjoint.library.functions import register_kernel as register_kernel
from adjoint.library.functions import register_torch_dispatch as register_torch_dispatch
from adjoint.library.functions import register_vmap as register_vmap
from adjoint.library.kernels import cuda_kernel as cuda_kernel
from adjoint.library.kernels import llvm_kernel as llvm_kernel
from adjoint.library.kernels import triton_op as triton_op
from adjoint.library.kernels import wrap_triton as wrap_triton
