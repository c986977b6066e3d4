"""The names of `torch._dynamo` that programs use."""

from collections.abc import Callable as _Callable
from functools import partial as _partial
from typing import Any as _Any

from adjoint._dynamo import config as config
from adjoint._dynamo import exc as exc
from adjoint._dynamo.explaining import ExplainOutput as ExplainOutput
from adjoint._dynamo.explaining import explain as explain
from adjoint._dynamo.optimized import OptimizedModule as OptimizedModule
from adjoint.engine.capture.capture import is_compiling as is_compiling
from adjoint.engine.capture.capture import reset as reset
from adjoint.engine.capture.dynamic.marks import mark_dynamic as mark_dynamic
from adjoint.engine.capture.dynamic.marks import mark_static as mark_static
from adjoint.engine.capture.dynamic.marks import maybe_mark_dynamic as maybe_mark_dynamic
from adjoint.engine.compiler.api import compile as _compile
from adjoint.engine.compiler.executors import factory_for as _factory_for
from adjoint.engine.compiler.executors import list_backends as list_backends
from adjoint.engine.compiler.executors import register_backend as _register
from adjoint.engine.compiler.marks import allow_in_graph as allow_in_graph
from adjoint.engine.compiler.marks import assume_constant_result as assume_constant_result
from adjoint.engine.compiler.marks import disable as disable
from adjoint.engine.compiler.marks import forbid_in_graph as forbid_in_graph
from adjoint.engine.compiler.marks import graph_break as graph_break
from adjoint.engine.compiler.marks import mark_static_address as mark_static_address
from adjoint.engine.compiler.marks import optimize as optimize
from adjoint.engine.compiler.marks import substitute_in_graph as substitute_in_graph
from adjoint.engine.compiler.stance import set_stance as set_stance

reset_code_caches = reset
skip_frame = disallow_in_graph = disable
_GIVEN: dict[_Any, _Callable[..., _Any]] = {}  # backends of graphs that programs named


def register_backend(
    compiler_fn: _Callable[..., _Any] | None = None, name: str | None = None, tags: _Any = ()
) -> _Any:
    """Make `compile(backend=name)` mean a function of a graph module and example inputs."""
    if compiler_fn is None:
        return _partial(register_backend, name=name, tags=tags)
    backend = compiler_fn
    _GIVEN[name or backend.__name__] = backend
    _register(name or backend.__name__, lambda mode, options: _factory_for(backend, mode, options))
    return backend


def lookup_backend(compiler_fn: _Any) -> _Any:
    """What compiles a graph module for example inputs, by the name that `compile` knows it by.

    A backend of one's own that looks at a graph hands it on to this.
    """
    if not isinstance(compiler_fn, str) or compiler_fn in _GIVEN:
        return _GIVEN.get(compiler_fn, compiler_fn)
    _factory_for(compiler_fn, "default", {})  # an unknown name is refused here

    def compile_graph(gm: _Any, example_inputs: _Any = None, **_: _Any) -> _Any:
        return _compile(gm, backend=compiler_fn)

    return compile_graph


def optimize_assert(
    backend: _Any, *, hooks: _Any = None, dynamic: bool | None = None, **_: _Any
) -> _Any:
    """`optimize`, where what cannot be recorded whole is an error."""
    return optimize(backend, nopython=True, dynamic=dynamic)


def is_dynamo_supported() -> bool:
    """Whether functions can be compiled: everywhere."""
    return True


def is_inductor_supported() -> bool:
    """Whether PyTorch's own compiler is there: no; `compile` is Adjoint's."""
    return False
