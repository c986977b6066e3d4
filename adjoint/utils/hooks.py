"""What registering a hook returns."""

from adjoint.autodiff.hooks import Handle as RemovableHandle

__all__ = ["RemovableHandle"]
