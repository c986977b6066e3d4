"""autocast: operations choose their precision, by the policies their names and records state."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from types import TracebackType
from typing import Any

from numpy import ndarray

from adjoint.engine.backends.array.gpu.cuda import is_available as cuda_is_available
from adjoint.engine.core.dtype import DType, bfloat16, float16, float32, float64
from adjoint.engine.core.errors import DeviceError
from adjoint.engine.core.operations.autocast import casts_itself, widens_itself
from adjoint.engine.core.operations.large import DEVICE_LAYOUTS
from adjoint.engine.core.operations.overrides import OVERRIDES
from adjoint.engine.core.operations.record import Record, is_tensor
from adjoint.engine.core.state.context import CONTEXT
from adjoint.engine.core.state.settings import consult
from adjoint.engine.core.tree import flatten, unflatten
from adjoint.engine.core.value import TensorBase
from adjoint.engine.ops.shape.convert import CAST

DEVICES = ("cpu", "cuda")
SUPPORTED = (bfloat16, float16)


@dataclass(frozen=True, slots=True)
class DeviceAutocast:
    """Autocast for one kind of device."""

    enabled: bool
    dtype: DType


@dataclass(frozen=True, slots=True)
class AutocastSettings:
    """Autocast for every kind of device."""

    cpu: DeviceAutocast = DeviceAutocast(False, bfloat16)
    cuda: DeviceAutocast = DeviceAutocast(False, float16)
    cache: bool = True

    def of(self, device_type: str) -> DeviceAutocast:
        """The setting for a kind of device; others are never cast."""
        return (
            getattr(self, device_type) if device_type in DEVICES else DeviceAutocast(False, float32)
        )


DEFAULT = AutocastSettings()


def current() -> AutocastSettings:
    """This thread's settings."""
    consult("autocast")
    return CONTEXT.autocast_settings or DEFAULT


@dataclass(frozen=True, slots=True)
class ActiveAutocast:
    """What stands in `CONTEXT.autocast`: equal, and so one capture, for equal settings."""

    settings: AutocastSettings
    cache: dict[Any, Any] = field(default_factory=dict, compare=False, hash=False, repr=False)

    def __call__(self, record: Record, operands: tuple[Any, ...]) -> tuple[Any, ...] | None:
        """An operation's operands as its record's policy wants them; None: as they are."""
        device = _device_type(operands)
        policy = (record.policies or {}).get(device or "")
        if device is None or policy is None or not self.settings.of(device).enabled:
            return None
        return tuple(self.cast(policy, device, operands))

    def call(
        self,
        policies: dict[str, str],
        fn: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        again: Callable[..., Any] | None = None,
    ) -> Any:
        """A function with its tensors cast, and no further casts inside.

        `again` does what the function does, by what is known of such calls.
        """
        values = (*args, *kwargs.values()) if kwargs else args
        device = _device_type(values)
        policy = None if device is None else policies.get(device)  # they are of `DEVICES` alone
        if device is None or policy is None or not getattr(self.settings, device).enabled:
            return fn(*args, **kwargs)
        if casts_itself(fn.__name__, device, policy):
            return fn(*args, **kwargs)
        wide = widens_itself(fn, device, policy, args)
        context = CONTEXT
        active, context.autocast, context.plain = context.autocast, None, context.settled
        try:  # `context.having(autocast=None)`, at a fraction of its time
            if wide is not None:
                return wide(*args, **kwargs)
            if policy != "fp32" or kwargs.get("dtype") is None:
                cast = self.cast(policy, device, values)
                if kwargs:
                    kwargs = dict(zip(kwargs, cast[len(args) :], strict=True))
                args = tuple(cast[: len(args)])
            return fn(*args, **kwargs) if again is None else again(*args, **kwargs)
        finally:
            context.autocast, context.plain = active, context.settled and active is None

    def lower_on_device(self, operands: tuple[Any, ...]) -> DType | None:
        """The dtype for operands on a GPU that are all to be cast; None where some are not."""
        setting = self.settings.cuda
        if not setting.enabled:
            return None
        for x in operands:
            if not (is_tensor(x) and x._array.__class__ in DEVICE_LAYOUTS):
                return None
            dtype = x.dtype
            if dtype is float64 or not dtype.is_floating_point:
                return None
        return setting.dtype

    def cast(self, policy: str, device: str, values: Any) -> list[Any]:
        """Values with the tensors among them, in lists too, in a policy's dtype."""
        match policy:
            case "keep":
                return list(values)
            case "lower":
                dtype = getattr(self.settings, device).dtype
            case "fp32":
                dtype = float32
            case "banned":
                raise RuntimeError(
                    "binary_cross_entropy: unsafe to autocast, because its input may have lost the "
                    "precision its logarithm needs. Use binary_cross_entropy_with_logits, or leave "
                    "autocast for the loss."
                )
            case "promote":
                dtype = _widest(values, device, self.settings.of(device).dtype)
            case _:
                raise ValueError(f"autocast: unknown policy {policy!r}")
        return self.cast_each(values, dtype, device)

    def cast_each(self, values: Any, dtype: DType, device: str) -> list[Any]:
        """Values with the tensors among them, in lists too, of a dtype."""
        converted = []
        for x in values:
            if isinstance(x, TensorBase):
                if x.dtype is not dtype and _eligible(x, device):  # type: ignore[attr-defined]
                    x = self._cached(x, dtype)
            elif isinstance(x, (list, tuple)):
                for v in x:
                    if isinstance(v, TensorBase):
                        x = type(x)(self.cast_each(x, dtype, device))
                        break
            converted.append(x)
        return converted

    def _cached(self, x: Any, dtype: DType) -> Any:
        """A cast; of a parameter, made once per region and state of the parameter."""
        if (
            not self.settings.cache
            or not (x._requires_grad and x._node is None and x.dtype is float32)
            or x._base is not None  # of others this is what `requires_grad` and `is_leaf` say
            or CONTEXT.capture is not None
            or CONTEXT.levels
        ):
            return _cast_to(x, dtype)
        key = (id(x), dtype, CONTEXT.grad_enabled)
        version = x._storage.version
        cast = self.cache.get(key)
        if cast is None or cast[0] is not x or cast[1] != version:
            cast = self.cache[key] = (x, version, _cast_to(x, dtype))
        return cast[2]


def _cast_to(x: Any, dtype: DType) -> Any:
    """A tensor of floating point numbers in another such dtype: `x.to(dtype)`, without its way."""
    return x.to(dtype) if OVERRIDES.active else CAST(x, dtype=dtype)


def _flat(values: Any) -> list[Any]:
    out = []
    for v in values:
        if is_tensor(v):
            out.append(v)
        elif isinstance(v, (list, tuple)):
            out += [t for t in v if is_tensor(t)]
    return out


def _device_type(values: Any) -> str | None:
    """The kind of device of the tensors; one that is not the CPU's decides."""
    layouts = []
    for x in values:
        if isinstance(x, TensorBase):
            layout = x._array.__class__
            if layout in DEVICE_LAYOUTS:
                return "cuda"
            layouts.append(layout)
    if layouts and layouts.count(ndarray) == len(values):
        return "cpu"
    kinds = [t.device.type for t in _flat(values)]
    return next((k for k in kinds if k != "cpu"), kinds[0] if kinds else None)


def _eligible(x: Any, device: str) -> bool:
    dtype = x.dtype
    if dtype is float64 or not dtype.is_floating_point:
        return False
    if x._array.__class__ in DEVICE_LAYOUTS:
        return device == "cuda"
    return bool(x.device.type == device)


def _widest(values: Any, device: str, lower: DType) -> DType:
    """The widest dtype among tensors autocast may cast."""
    dtypes = {t.dtype for t in _flat(values) if _eligible(t, device)}
    if float32 in dtypes or len(dtypes) > 1:
        return float32
    return dtypes.pop() if dtypes else lower


# Regions that were entered last, by what is settled around them: programs enter one at each step.
_met: dict[Any, tuple[AutocastSettings, AutocastSettings]] = {}
REGIONS = 64


def _within(
    around: AutocastSettings, cache: bool, device: str, enabled: bool, dtype: DType
) -> AutocastSettings:
    """The settings of a region."""
    key = id(around), cache, device, enabled, dtype
    known = _met.get(key)
    if known is not None and known[0] is around:
        return known[1]
    changed: dict[str, Any] = {device: DeviceAutocast(enabled, dtype)}
    settings = replace(around, cache=cache, **changed)
    if len(_met) >= REGIONS:
        _met.clear()
    _met[key] = around, settings
    return settings


def _enter(settings: AutocastSettings) -> dict[str, Any]:
    """Make settings this thread's; returns what to put back."""
    active = CONTEXT.autocast
    cache = {} if active is None else active.cache
    on = settings.cpu.enabled or settings.cuda.enabled
    return CONTEXT.set(
        autocast=ActiveAutocast(settings, cache) if on else None, autocast_settings=settings
    )


class autocast:
    """A region in which operations choose their precision.

    Products and convolutions compute in a half dtype, sums and losses that need it in float32, as
    PyTorch's lists have it; also a decorator. Regions nest, and one with `enabled=False` turns
    casts off inside another.

    Args:
        device_type: "cpu" or "cuda": whose tensors are cast.
        dtype: bfloat16 or float16; by default bfloat16 on the CPU, float16 on CUDA.
        enabled: whether to cast.
        cache_enabled: keep casts of parameters for the whole region.

    Example:
        >>> import adjoint as ad
        >>> x = ad.ones(2, 2)
        >>> with ad.autocast("cpu"):
        ...     (x @ x).dtype, (x + x).dtype
        (adjoint.bfloat16, adjoint.float32)
    """

    def __init__(
        self,
        device_type: str,
        dtype: DType | None = None,
        enabled: bool = True,
        cache_enabled: bool | None = None,
    ) -> None:
        if not isinstance(device_type, str):
            raise ValueError(
                f"Expected `device_type` of type `str`, got: `{type(device_type).__name__}`"
            )
        if device_type not in DEVICES:
            raise DeviceError(
                f"User specified an unsupported autocast device_type '{device_type}'. Use one of "
                f"{', '.join(DEVICES)}."
            )
        self.device = device_type
        self.fast_dtype = current().of(device_type).dtype if dtype is None else dtype
        self._cache_enabled = current().cache if cache_enabled is None else cache_enabled
        if device_type == "cuda" and enabled and not cuda_is_available():
            warnings.warn(
                "User provided device_type of 'cuda', but CUDA is not available. Disabling",
                stacklevel=2,
            )
            enabled = False
        if enabled and self.fast_dtype not in SUPPORTED:
            if self.fast_dtype is not float32:
                warnings.warn(
                    f"In {device_type.upper()} autocast, but the target dtype is not supported. "
                    f"Disabling autocast. {device_type.upper()} Autocast only supports dtypes of "
                    "bfloat16 and float16 currently.",
                    stacklevel=2,
                )
            enabled = False
        self._enabled = enabled
        self._before: list[dict[str, Any]] = []

    def __enter__(self) -> autocast:
        own = self._cache_enabled, self.device, self._enabled, self.fast_dtype
        self._before.append(_enter(_within(current(), *own)))
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        CONTEXT.set(**self._before.pop())

    def __call__(self, fn: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(fn)
        def decorated(*args: Any, **kwargs: Any) -> Any:
            with self:
                return fn(*args, **kwargs)

        return decorated


def is_autocast_available(device_type: str) -> bool:
    """Whether autocast knows a kind of device."""
    return device_type in DEVICES


def is_autocast_enabled(device_type: str = "cuda") -> bool:
    """Whether tensors on a kind of device are being cast."""
    return current().of(device_type).enabled


def get_autocast_dtype(device_type: str) -> DType:
    """The dtype products compute in on a kind of device."""
    return current().of(device_type).dtype


def _change(device_type: str, **fields: Any) -> None:
    settings = current()
    changed: dict[str, Any] = {device_type: replace(settings.of(device_type), **fields)}
    _enter(replace(settings, **changed))


def set_autocast_enabled(device_type: str | bool, enabled: bool | None = None) -> None:
    """Turn autocast on or off for a kind of device, until it is changed again."""
    if enabled is None:
        device_type, enabled = "cuda", bool(device_type)
    _change(str(device_type), enabled=bool(enabled))


def set_autocast_dtype(device_type: str, dtype: DType) -> None:
    """Set the dtype products compute in on a kind of device."""
    _change(device_type, dtype=dtype)


def is_autocast_cache_enabled() -> bool:
    """Whether casts of parameters are kept for a region."""
    return current().cache


def set_autocast_cache_enabled(enabled: bool) -> None:
    """Keep casts of parameters for a region, or make them anew."""
    _enter(replace(current(), cache=bool(enabled)))


def clear_autocast_cache() -> None:
    """Forget the casts of parameters kept so far."""
    if CONTEXT.autocast is not None:
        CONTEXT.autocast.cache.clear()


def is_autocast_cpu_enabled() -> bool:
    """Whether tensors on the CPU are being cast."""
    return is_autocast_enabled("cpu")


def get_autocast_cpu_dtype() -> DType:
    """The dtype products compute in on the CPU."""
    return get_autocast_dtype("cpu")


def get_autocast_gpu_dtype() -> DType:
    """The dtype products compute in on CUDA."""
    return get_autocast_dtype("cuda")


def set_autocast_cpu_enabled(enabled: bool) -> None:
    """Turn autocast on or off for the CPU."""
    set_autocast_enabled("cpu", enabled)


def set_autocast_cpu_dtype(dtype: DType) -> None:
    """Set the dtype products compute in on the CPU."""
    set_autocast_dtype("cpu", dtype)


def set_autocast_gpu_dtype(dtype: DType) -> None:
    """Set the dtype products compute in on CUDA."""
    set_autocast_dtype("cuda", dtype)


# -- custom functions -------------------------------------------------------------------------


def _cast(value: Any, device_type: str, dtype: DType) -> Any:
    """The tensors of a structure, those that autocast may cast, of a dtype."""
    leaves, structure = flatten(value)
    return unflatten(
        structure,
        [
            x.to(dtype)
            if is_tensor(x)
            and x.is_floating_point()
            and x.device.type == device_type
            and x.dtype is not float64
            else x
            for x in leaves
        ],
    )


def custom_fwd(
    fwd: Callable[..., Any] | None = None,
    *,
    device_type: str,
    cast_inputs: DType | None = None,
) -> Any:
    """Decorates a custom function's `forward`.

    Args:
        device_type: "cpu" or "cuda".
        cast_inputs: the dtype its tensors are cast to while autocast is on, with autocast off
            inside; None: as they are, with autocast as it is.
    """
    if not isinstance(device_type, str):
        raise ValueError(
            f"Expected `device_type` of type `str`, got: `{type(device_type).__name__}`"
        )
    if fwd is None:
        return functools.partial(custom_fwd, device_type=device_type, cast_inputs=cast_inputs)

    @functools.wraps(fwd)
    def forward(*args: Any, **kwargs: Any) -> Any:
        context = args[0]
        context._dtype = CONTEXT.autocast_settings
        on = is_autocast_enabled(device_type)
        if cast_inputs is None or not on:
            context._fwd_used_autocast = on
            return fwd(*args, **kwargs)
        context._fwd_used_autocast = False
        with autocast(device_type, enabled=False):
            return fwd(
                *_cast(args, device_type, cast_inputs), **_cast(kwargs, device_type, cast_inputs)
            )

    return forward


def custom_bwd(bwd: Callable[..., Any] | None = None, *, device_type: str) -> Any:
    """Decorates a custom function's `backward`: it runs with the autocast of its forward.

    Args:
        device_type: "cpu" or "cuda".
    """
    if not isinstance(device_type, str):
        raise ValueError(
            f"Expected `device_type` of type `str`, got: `{type(device_type).__name__}`"
        )
    if bwd is None:
        return functools.partial(custom_bwd, device_type=device_type)

    @functools.wraps(bwd)
    def backward(*args: Any, **kwargs: Any) -> Any:
        settings = args[0]._dtype
        dtype = None if settings is None else settings.of(device_type).dtype
        with autocast(device_type, dtype=dtype, enabled=args[0]._fwd_used_autocast):
            return bwd(*args, **kwargs)

    return backward
