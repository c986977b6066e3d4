"""The compiler: from a function to a program that runs without it. `compile` is its front."""

from adjoint.compiler.api import compile as compile
from adjoint.compiler.executors import list_backends as list_backends
from adjoint.compiler.executors import register_backend as register_backend
from adjoint.compiler.marks import allow_in_graph as allow_in_graph
from adjoint.compiler.marks import assume_constant_result as assume_constant_result
from adjoint.compiler.marks import cudagraph_mark_step_begin as cudagraph_mark_step_begin
from adjoint.compiler.marks import disable as disable
from adjoint.compiler.marks import is_dynamo_compiling as is_dynamo_compiling
from adjoint.compiler.marks import is_exporting as is_exporting
from adjoint.graph.capture import is_compiling as is_compiling
from adjoint.graph.capture import reset as reset
