"""Where PyTorch keeps special tensors."""

from typing import Any


def __getattr__(name: str) -> Any:
    if name in ("FakeTensor", "FakeTensorMode"):
        from adjoint._subclasses import fake_tensor  # which loads most of Adjoint

        return getattr(fake_tensor, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}", name=name)
