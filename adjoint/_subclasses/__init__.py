"""Where PyTorch keeps special tensors."""

from typing import Any

from adjoint.engine.core.state.loading import lacking as _lacking


def __getattr__(name: str) -> Any:
    if name in ("FakeTensor", "FakeTensorMode"):
        from adjoint._subclasses import fake_tensor  # which loads most of Adjoint

        return getattr(fake_tensor, name)
    raise _lacking(__name__, name)
