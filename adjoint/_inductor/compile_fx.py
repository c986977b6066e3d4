"""What backends of one's own call to compile a graph they have looked at."""

from __future__ import annotations

from typing import Any

from adjoint._dynamo import lookup_backend


def compile_fx(model_: Any, example_inputs_: Any = None, *_: Any, **__: Any) -> Any:
    """A graph module compiled as `compile` does it; options of PyTorch's compiler have no part."""
    return lookup_backend("inductor")(model_, example_inputs_)
