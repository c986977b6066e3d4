"""The compiler: from a function to a program that runs without it. `compile` is its front."""

from adjoint.compiler.api import compile as compile
from adjoint.compiler.executors import list_backends as list_backends
from adjoint.compiler.executors import register_backend as register_backend
from adjoint.graph.capture import is_compiling as is_compiling
from adjoint.graph.capture import reset as reset
