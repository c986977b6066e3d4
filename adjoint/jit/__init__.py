"""PyTorch's TorchScript names: what is scripted or traced runs as the Python it is.

Results are the same. There is no TorchScript program behind it, so `graph` and `code` are refused;
`adjoint.compile` is what makes a function faster. `save` writes a traced module as `export` does.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any, Final

from adjoint import export as programs
from adjoint.engine.core.state import switches
from adjoint.engine.core.state.loading import lacking as _lacking
from adjoint.futures import Future as Future
from adjoint.jit import _state as _state
from adjoint.jit.modules import TRACED_WITH, refuse, scripted
from adjoint.jit.modules import ScriptFunction as ScriptFunction
from adjoint.jit.modules import ScriptModule as RecursiveScriptModule  # noqa: F401
from adjoint.jit.modules import ScriptModule as ScriptModule
from adjoint.nn.modules.module import Module

__all__ = ["Final", "ScriptFunction", "ScriptModule", "script", "trace"]


def script(obj: Any, *args: Any, **kwargs: Any) -> Any:
    """A function or class as it is; a module as a `ScriptModule` with the same parameters.

    Example:
        >>> import adjoint as ad
        >>> @script
        ... def double(x: ad.Tensor) -> ad.Tensor:
        ...     return x * 2
        >>> double(ad.ones(2))
        tensor([2., 2.])
    """
    if isinstance(obj, Module):
        return scripted(obj)
    if isinstance(obj, type):
        return obj
    if not callable(obj):
        raise TypeError(
            f"jit.script: expected a function, class or module, received {type(obj).__name__}"
        )
    return ScriptFunction(obj)


def trace(
    func: Any,
    example_inputs: Any = None,
    optimize: Any = None,
    check_trace: bool = True,
    check_inputs: Any = None,
    check_tolerance: float = 1e-5,
    strict: bool = True,
    example_kwarg_inputs: dict[str, Any] | None = None,
    **_: Any,
) -> Any:
    """Call a function or module once on examples, to see that it runs, and give it back.

    Branches stay branches: unlike PyTorch's, the result decides anew at each call.

    Args:
        func: the function or module.
        example_inputs: what to call it with.
        optimize: accepted as PyTorch has it.
        check_trace: accepted as PyTorch has it.
        check_inputs: accepted as PyTorch has it.
        check_tolerance: accepted as PyTorch has it.
        strict: accepted as PyTorch has it.
        example_kwarg_inputs: keyword arguments to call it with.
    """
    given: tuple[Any, ...] = ()
    if example_kwarg_inputs is not None:
        func(**example_kwarg_inputs)
    elif example_inputs is not None:
        given = (
            tuple(example_inputs)
            if isinstance(example_inputs, (tuple, list))
            else (example_inputs,)
        )
        func(*given)
    scripted_form = script(func)
    if isinstance(scripted_form, ScriptModule):
        TRACED_WITH[scripted_form] = (given, dict(example_kwarg_inputs or {}))
    return scripted_form


def trace_module(mod: Module, inputs: dict[str, Any], *args: Any, **kwargs: Any) -> Any:
    """Call methods of a module once on examples, and give it back."""
    for name, given in inputs.items():
        getattr(mod, name)(*(given if isinstance(given, tuple) else (given,)))
    return script(mod)


def ignore(drop: Any = False, **_: Any) -> Any:
    """Decorates what TorchScript should leave to Python; all is Python here."""
    return drop if callable(drop) else _same


def _same(fn: Callable[..., Any]) -> Callable[..., Any]:
    return fn


def unused(fn: Callable[..., Any]) -> Callable[..., Any]:
    """Decorates what TorchScript should refuse to run; nothing is TorchScript here."""
    return fn


def export(fn: Callable[..., Any]) -> Callable[..., Any]:
    """Decorates a method to be kept; all are."""
    return fn


script_method = interface = _overload = _overload_method = export


def is_scripting() -> bool:
    """Whether this runs as TorchScript: never."""
    return False


def is_tracing() -> bool:
    """Whether this runs inside `trace`: never, as far as a program must care."""
    return False


def annotate(the_type: Any, the_value: Any) -> Any:
    """The value itself."""
    return the_value


def Attribute(value: Any, type: Any) -> Any:
    """The value itself."""
    return value


class TracerWarning(Warning):
    """What PyTorch warns of when a trace may not generalise; never raised here."""


class Error(Exception):
    """An error in TorchScript; never raised here."""


def __getattr__(name: str) -> Any:
    if name == "isinstance":  # Python's own, which this file uses under its name
        return isinstance
    raise _lacking(__name__, name)


def freeze(mod: Module, preserved_attrs: Any = None, *_: Any, **__: Any) -> Module:
    """The module itself, which must be in evaluation mode; says once that nothing is frozen."""
    if mod.training:
        raise RuntimeError(
            "Freezing is currently only implemented for modules in eval mode. Please call .eval() "
            "on your module before freezing."
        )
    switches.tell("jit.freeze")
    return mod


def optimize_for_inference(mod: Module, other_methods: Any = None) -> Module:
    """The module itself; says once that nothing is optimised."""
    switches.tell("jit.optimize_for_inference")
    return mod


def fork(func: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Call a function now, as PyTorch does outside TorchScript; `wait` gives its result."""
    return _Result(func(*args, **kwargs))


def wait(future: Any) -> Any:
    """The result of `fork`."""
    return future.value()


class _Result:
    def __init__(self, value: Any) -> None:
        self._value = value

    def value(self) -> Any:
        return self._value

    wait = value


def script_if_tracing(fn: Callable[..., Any]) -> Callable[..., Any]:
    """Decorates a function that a trace should compile; it runs as the Python it is."""
    return fn


_script_if_tracing = script_if_tracing


class strict_fusion(contextlib.nullcontext[None]):
    """A `with` block that asks for all to be fused; TorchScript's fuser has no part here."""


def fuser(name: str) -> Any:
    """A `with` block that chooses TorchScript's fuser, which has no part here."""
    return contextlib.nullcontext()


def optimized_execution(should_optimize: bool) -> Any:
    """A `with` block that sets whether TorchScript is optimised; nothing is TorchScript here."""
    return contextlib.nullcontext()


def set_fusion_strategy(strategy: Any) -> list[tuple[str, int]]:
    """Keep what TorchScript's fuser should do, and give what was kept; it has no part here."""
    for kind, _ in strategy:
        if kind not in ("STATIC", "DYNAMIC"):
            raise RuntimeError(f"FusionBehavior only supported 'STATIC' or 'DYNAMIC', got: {kind}")
    before: list[tuple[str, int]] = list(switches.get("jit.set_fusion_strategy"))
    switches.put("jit.set_fusion_strategy", tuple(tuple(entry) for entry in strategy))
    return before


def enable_onednn_fusion(enabled: bool) -> None:
    """Keep whether TorchScript should fuse by oneDNN; says once that nothing does."""
    switches.put("jit.enable_onednn_fusion", bool(enabled))


def onednn_fusion_enabled() -> bool:
    """What `enable_onednn_fusion` was told."""
    return bool(switches.get("jit.enable_onednn_fusion"))


def save(m: Any, f: Any, _extra_files: dict[str, Any] | None = None) -> None:
    """Write a traced module to a file, as the program that `export` makes of it.

    Sizes that the trace's example had may change in the file's program where they can. A scripted
    module or function is refused: nothing says what it would be called with.

    Example:
        >>> import adjoint as ad, io
        >>> net, file = ad.nn.Linear(3, 2), io.BytesIO()
        >>> save(trace(net, ad.zeros(4, 3)), file)
        >>> _ = file.seek(0)
        >>> x = ad.randn(7, 3)
        >>> bool(ad.allclose(load(file)(x), net(x)))
        True
    """
    if not isinstance(m, ScriptModule):
        refuse("jit.save")
    m.save(f, _extra_files)


def load(
    f: Any, map_location: Any = None, _extra_files: dict[str, Any] | None = None, **_: Any
) -> Any:
    """The module in a file that `save` wrote; PyTorch's own TorchScript files are refused."""
    program = programs.load(f, extra_files=_extra_files)
    module = program.module()
    return module if map_location is None else module.to(map_location)
