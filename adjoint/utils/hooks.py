"""What registering a hook returns."""

from adjoint.engine.autodiff.tape.hooks import Handle as RemovableHandle

__all__ = ["RemovableHandle"]
