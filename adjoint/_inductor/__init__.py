"""What libraries set and register with PyTorch's own compiler; `compile` here is Adjoint's."""

from adjoint._inductor import config as config
from adjoint._inductor import decomposition as decomposition
from adjoint.engine.compiler.marks import cudagraph_mark_step_begin as cudagraph_mark_step_begin
