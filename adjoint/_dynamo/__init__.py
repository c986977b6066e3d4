"""The names of `torch._dynamo` that programs use."""

from adjoint._dynamo import config as config
from adjoint.compiler.executors import list_backends as list_backends
from adjoint.compiler.marks import allow_in_graph as allow_in_graph
from adjoint.compiler.marks import assume_constant_result as assume_constant_result
from adjoint.compiler.marks import disable as disable
from adjoint.graph.capture import is_compiling as is_compiling
from adjoint.graph.capture import reset as reset
from adjoint.graph.dynamic import mark_dynamic as mark_dynamic
