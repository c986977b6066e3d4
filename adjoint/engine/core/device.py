"""Devices: where a tensor's buffer lives."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from adjoint.engine.core.errors import DeviceError, did_you_mean

# Device types there are; "meta" has shapes and no elements (tensor.meta).
KNOWN_TYPES: Final[set[str]] = {"cpu", "cuda", "meta"}
# Those of PyTorch's that programs name, to compare with; nothing can be put there.
NAMED_TYPES: Final = frozenset({"hpu", "mps", "mtia", "xla", "xpu"})
# The index a device type without one means now; a backend adds its own when it is first used.
CURRENT_INDEX: Final[dict[str, Callable[[], int]]] = {}


class Device:
    """A device type with an optional index: ``device("cuda:0")``.

    There is one object for each, so they compare and hash by identity: specs hold devices, and are
    compared and looked up throughout a recording.

    >>> Device("cuda", 1)
    device(type='cuda', index=1)
    >>> Device("cuda:1") is Device("cuda", 1)
    True
    """

    __slots__ = ("index", "type")
    type: str
    index: int | None

    def __new__(cls, type: str | Device | int, index: int | None = None) -> Device:
        if isinstance(type, Device):
            return type
        if isinstance(type, int):
            return _make("cuda", type)
        if not isinstance(type, str):
            raise TypeError(
                f"device: expected a device, its name or a number, received {type!r} of "
                f"{type.__class__.__module__}.{type.__class__.__name__}. Give str(device)."
            )
        kind, _, tail = type.partition(":")
        if tail:
            if index is not None:
                raise DeviceError(
                    f"device: type should not include an index when one is passed: {type!r}"
                )
            if not tail.isdigit():
                raise DeviceError(f"device: invalid device string: {type!r}")
            index = int(tail)
        if kind not in KNOWN_TYPES and kind not in NAMED_TYPES:
            meant = did_you_mean("cuda" if kind == "gpu" else kind, KNOWN_TYPES)
            raise DeviceError(
                f"device: expected one of {', '.join(sorted(KNOWN_TYPES))} device type at start "
                f"of device string, received {type!r}{meant}"
            )
        if index is not None and index < 0:
            raise DeviceError(f"device: index must not be negative, received {index}")
        return _make(kind, index)

    if TYPE_CHECKING:  # given by core.placement: `with device("cuda"):`

        def __enter__(self) -> Device: ...
        def __exit__(self, *_: object) -> None: ...

    def __repr__(self) -> str:
        if self.index is None:
            return f"device(type={self.type!r})"
        return f"device(type={self.type!r}, index={self.index})"

    def __str__(self) -> str:
        return self.type if self.index is None else f"{self.type}:{self.index}"

    def __reduce__(self) -> tuple[object, ...]:
        return (Device, (self.type, self.index))


_MADE: Final[dict[tuple[str, int | None], Device]] = {}


def _make(kind: str, index: int | None) -> Device:
    device = _MADE.get((kind, index))
    if device is None:
        fresh = object.__new__(Device)
        fresh.type = kind
        fresh.index = index
        device = _MADE.setdefault((kind, index), fresh)  # another thread may have been first
    return device


CPU: Final = Device("cpu")
