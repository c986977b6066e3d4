"""Files whose storages are left empty, to be filled in a separate pass."""

from __future__ import annotations

import threading
from types import TracebackType


class _Skipping(threading.local):
    active = False


_STATE = _Skipping()


def skipping() -> bool:
    """Whether storages' bytes are skipped now, in this thread."""
    return _STATE.active


class skip_data:
    """While it is entered, `save` writes zeros for the bytes of storages and `load` reads none.

    Everything else is written and read: names, shapes, dtypes, and room for the bytes.

    Args:
        materialize_fake_tensors: accepted as PyTorch has it; fake tensors cannot be saved here.

    Example:
        >>> import adjoint as ad, os, tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = os.path.join(folder, "model.pt")
        ...     with skip_data():
        ...         ad.save(ad.ones(3), path)
        ...     ad.load(path)
        tensor([0., 0., 0.])
    """

    def __init__(self, materialize_fake_tensors: bool = False) -> None:
        if materialize_fake_tensors:
            raise NotImplementedError(
                "skip_data: materialize_fake_tensors=True: fake tensors cannot be saved; save "
                "empty tensors of the same shapes."
            )

    def __enter__(self) -> None:
        self._before = _STATE.active
        _STATE.active = True

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        where: TracebackType | None,
    ) -> None:
        _STATE.active = self._before
