"""Optimizer: parameter groups, state, state dicts, hooks; the base of every optimizer."""

from __future__ import annotations

import functools
import warnings
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator
from copy import deepcopy
from itertools import chain
from typing import Any, ClassVar

from adjoint.engine.autodiff.tape.hooks import Handle
from adjoint.engine.core.dtype import float32
from adjoint.engine.core.operations.record import is_tensor
from adjoint.engine.core.ownership import REPLACED
from adjoint.engine.core.state.context import CONTEXT
from adjoint.engine.core.state.timeline import LISTENERS, stage
from adjoint.engine.tensor.tensor import PLAIN, Tensor
from adjoint.optim.stepping.groups import ParamGroup
from adjoint.optim.stepping.hooks import AFTER_EVERY_STEP, BEFORE_EVERY_STEP, Table, register
from adjoint.optim.stepping.hooks import (
    register_optimizer_step_post_hook as register_optimizer_step_post_hook,
)
from adjoint.optim.stepping.hooks import (
    register_optimizer_step_pre_hook as register_optimizer_step_pre_hook,
)
from adjoint.optim.written_elsewhere import _capturable_doc as _capturable_doc
from adjoint.optim.written_elsewhere import _differentiable_doc as _differentiable_doc
from adjoint.optim.written_elsewhere import (
    _disable_dynamo_if_unsupported as _disable_dynamo_if_unsupported,
)
from adjoint.optim.written_elsewhere import _dispatch_sqrt as _dispatch_sqrt
from adjoint.optim.written_elsewhere import _foreach_doc as _foreach_doc
from adjoint.optim.written_elsewhere import _fused_doc as _fused_doc
from adjoint.optim.written_elsewhere import _get_scalar_dtype as _get_scalar_dtype
from adjoint.optim.written_elsewhere import _get_value as _get_value
from adjoint.optim.written_elsewhere import (
    _group_tensors_by_device_and_dtype as _group_tensors_by_device_and_dtype,
)
from adjoint.optim.written_elsewhere import _maximize_doc as _maximize_doc
from adjoint.optim.written_elsewhere import _params_doc as _params_doc
from adjoint.optim.written_elsewhere import _stack_if_compiling as _stack_if_compiling
from adjoint.optim.written_elsewhere import _to_scalar as _to_scalar
from adjoint.optim.written_elsewhere import _view_as_real as _view_as_real

ParamsT = Iterable[Any]
_params_t = ParamsT
Closure = Callable[[], Any]

_HOOK_TABLES = (
    "_optimizer_step_pre_hooks",
    "_optimizer_step_post_hooks",
    "_optimizer_state_dict_pre_hooks",
    "_optimizer_state_dict_post_hooks",
    "_optimizer_load_state_dict_pre_hooks",
    "_optimizer_load_state_dict_post_hooks",
)


_PLAIN = (bool, int, float, str, type(None))
# Attributes a captured step does not depend on, or reads at each call; hooks are added apart.
_NOT_CAPTURED = frozenset(
    {*_HOOK_TABLES, "step", "_opt_called", "_step_count", "_plans", "_large", "defaults"}
)


class _Required:
    """Marks an option that every parameter group must state."""

    def __repr__(self) -> str:
        return "<required parameter>"


required = _Required()
_RequiredParameter = _Required  # PyTorch's name


PLAIN_GRAD = Tensor.grad  # the property, which a class of somebody's may have another of


def _with_hooks(step: Callable[..., Any]) -> Callable[..., Any]:
    """A `step` method that calls the hooks before and after it."""

    @functools.wraps(step)
    def hooked(self: Optimizer, *args: Any, **kwargs: Any) -> Any:
        if "_optimizer_step_pre_hooks" not in self.__dict__:
            self._opt_called = True
            return step(self, *args, **kwargs)  # a wrapper that never called `__init__`
        given: tuple[Any, ...] = (self, *args)
        for hook in chain(
            BEFORE_EVERY_STEP.values(), tuple(self._optimizer_step_pre_hooks.values())
        ):
            changed = hook(self, given, kwargs)
            if changed is None:
                continue
            if not (isinstance(changed, tuple) and len(changed) == 2):
                raise RuntimeError(
                    f"{type(self).__name__}.step: a pre hook must return None or a tuple of "
                    f"(new_args, new_kwargs), but got {changed}."
                )
            given, kwargs = changed
        self._opt_called = True  # schedulers warn when they come first
        out = step(*given, **kwargs)
        for hook in chain(
            tuple(self._optimizer_step_post_hooks.values()), AFTER_EVERY_STEP.values()
        ):
            hook(self, given, kwargs)
        return out

    hooked.hooked = True  # type: ignore[attr-defined]
    return hooked


def _use_grad_for_differentiable(step: Callable[..., Any]) -> Callable[..., Any]:
    """A `step` method run without recording, unless the optimizer is differentiable."""

    @functools.wraps(step)
    def moded(self: Optimizer, *args: Any, **kwargs: Any) -> Any:
        with CONTEXT.having(grad_enabled=bool(self.defaults.get("differentiable", False))):
            if not LISTENERS or CONTEXT.capture is not None:
                return step(self, *args, **kwargs)
            with stage(f"Optimizer.step#{type(self).__name__}.step", "user_annotation"):
                return step(self, *args, **kwargs)

    return moded


class Optimizer:
    """Base class of optimizers.

    Args:
        params: tensors, (name, tensor) pairs, or dictionaries that each describe a group.
        defaults: the options of groups that do not state their own.

    Example:
        >>> import adjoint as ad
        >>> class Descent(ad.optim.Optimizer):
        ...     @ad.no_grad()
        ...     def step(self, closure=None):
        ...         for group in self.param_groups:
        ...             for p in group["params"]:
        ...                 p.add_(p.grad, alpha=-group["lr"])
        >>> w = ad.ones(2, requires_grad=True)
        >>> (w * w).sum().backward()
        >>> Descent([w], {"lr": 0.25}).step()
        >>> w
        tensor([0.5000, 0.5000], requires_grad=True)
    """

    # Whether the update of an element sees nothing but that element's values; None: not stated
    elementwise: ClassVar[bool | None] = None
    _opt_called: bool = False
    _optimizer_step_pre_hooks: Table
    _optimizer_step_post_hooks: Table
    _optimizer_state_dict_pre_hooks: Table
    _optimizer_state_dict_post_hooks: Table
    _optimizer_load_state_dict_pre_hooks: Table
    _optimizer_load_state_dict_post_hooks: Table

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        step = cls.__dict__.get("step")
        if step is not None and not hasattr(step, "hooked"):
            cls.step = _with_hooks(step)  # type: ignore[method-assign]

    @staticmethod
    def profile_hook_step(func: Callable[..., Any]) -> Callable[..., Any]:
        """A `step` method that calls the hooks before and after it, as those of classes do."""
        return func if hasattr(func, "hooked") else _with_hooks(func)

    _group_tensors_by_device_and_dtype = staticmethod(_group_tensors_by_device_and_dtype)

    def __init__(self, params: ParamsT, defaults: dict[str, Any]) -> None:
        self.defaults = defaults
        self._add_hook_tables()
        if is_tensor(params):
            raise TypeError(
                "params argument given to the optimizer should be an iterable of Tensors or dicts, "
                f"but got {type(params).__name__}. Put the tensor in a list."
            )
        if hasattr(params, "parameters") and not hasattr(params, "__iter__"):
            raise TypeError(
                "params argument given to the optimizer should be an iterable of Tensors or dicts, "
                f"but got {type(params).__name__}. Pass its parameters()."
            )
        self.state: defaultdict[Any, Any] = defaultdict(dict)
        self.param_groups: list[ParamGroup] = []
        groups = list(params)
        if not groups:
            raise ValueError("optimizer got an empty parameter list")
        if not isinstance(groups[0], dict):
            groups = [{"params": groups}]
        for group in groups:
            self.add_param_group(group)

    def _add_hook_tables(self) -> None:
        for name in _HOOK_TABLES:
            self.__dict__.setdefault(name, OrderedDict())

    def _patch_step_function(self) -> None:
        """What an optimizer that sets itself up calls, so that its steps may have hooks."""
        self._add_hook_tables()

    def has_step_hooks(self) -> bool:
        """Whether a step calls hooks: a recording follows them then."""
        own = (self._optimizer_step_pre_hooks, self._optimizer_step_post_hooks)
        return bool(BEFORE_EVERY_STEP or AFTER_EVERY_STEP or any(own))

    def capture_children(self) -> Iterator[tuple[str, Any]]:
        """What a captured step depends on: groups, which tensors the state has, hooks of steps."""
        yield from ((k, v) for k, v in self.__dict__.items() if k not in _NOT_CAPTURED)
        for table in (
            BEFORE_EVERY_STEP,
            self._optimizer_step_pre_hooks,
            self._optimizer_step_post_hooks,
            AFTER_EVERY_STEP,
        ):  # the first hook of a table moves the epoch, from then on the table is looked at
            if table:
                yield "hooks", table

    def capture_watch(self) -> list[tuple[Any, ...]]:
        """The same as places: what must stay identical there."""
        own = self.__dict__
        places: list[tuple[Any, ...]] = [("length", own)]
        places += [("item", own, name) for name in own if name not in _NOT_CAPTURED]
        if self.capture_covers():
            places += [("items", state, "items") for state in (self.state, *self.state.values())]
        return places

    def capture_covers(self) -> tuple[str, ...]:
        """The attributes whose inside `capture_watch` lists too: the state, if it is flat."""
        flat = all(
            type(state) is dict
            and all(is_tensor(v) or isinstance(v, _PLAIN) for v in state.values())
            for state in self.state.values()
        )
        return ("state",) if flat else ()

    def capture_keep(self) -> Callable[[], None]:
        """What puts back the tensors the state has now, after a captured step that failed."""
        now = [
            (p, state, dict(state)) for p, state in self.state.items() if isinstance(state, dict)
        ]

        def restore() -> None:
            self.state.clear()
            for p, state, before in now:
                state.clear()
                state.update(before)
                self.state[p] = state

        return restore

    def __getstate__(self) -> dict[str, Any]:
        return {
            "defaults": self.defaults,
            "state": self.state,
            "param_groups": self.param_groups,
        }

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._add_hook_tables()
        self.defaults.setdefault("differentiable", False)
        self.param_groups = [
            g if isinstance(g, ParamGroup) else ParamGroup(g) for g in self.param_groups
        ]

    @staticmethod
    def _counts_on_device(group: ParamGroup) -> bool:
        """Whether step counts live beside the parameters, not on the host."""
        return bool(group.get("capturable") or group.get("fused"))

    def __repr__(self) -> str:
        text = f"{type(self).__name__} ("
        for i, group in enumerate(self.param_groups):
            text += f"\nParameter Group {i}\n"
            for key in sorted(group.keys()):
                if key != "params":
                    text += f"    {key}: {group[key]}\n"
        return text + ")"

    # -- hooks --------------------------------------------------------------------------------

    def register_step_pre_hook(self, hook: Callable[..., Any]) -> Handle:
        """Call `hook(optimizer, args, kwargs)` before `step`; it may return new ones."""
        return register(self._optimizer_step_pre_hooks, hook)

    def register_step_post_hook(self, hook: Callable[..., Any]) -> Handle:
        """Call `hook(optimizer, args, kwargs)` after `step`."""
        return register(self._optimizer_step_post_hooks, hook)

    def register_state_dict_pre_hook(
        self, hook: Callable[..., Any], prepend: bool = False
    ) -> Handle:
        """Call `hook(optimizer)` before `state_dict`."""
        return register(self._optimizer_state_dict_pre_hooks, hook, prepend=prepend)

    def register_state_dict_post_hook(
        self, hook: Callable[..., Any], prepend: bool = False
    ) -> Handle:
        """Call `hook(optimizer, state_dict)` after `state_dict`; it may return another."""
        return register(self._optimizer_state_dict_post_hooks, hook, prepend=prepend)

    def register_load_state_dict_pre_hook(
        self, hook: Callable[..., Any], prepend: bool = False
    ) -> Handle:
        """Call `hook(optimizer, state_dict)` before loading; it may return another."""
        return register(self._optimizer_load_state_dict_pre_hooks, hook, prepend=prepend)

    def register_load_state_dict_post_hook(
        self, hook: Callable[..., Any], prepend: bool = False
    ) -> Handle:
        """Call `hook(optimizer)` after loading."""
        return register(self._optimizer_load_state_dict_post_hooks, hook, prepend=prepend)

    # -- state dicts --------------------------------------------------------------------------

    def state_dict(self) -> dict[str, Any]:
        """The state by parameter number and the groups, as PyTorch lays them out."""
        for hook in self._optimizer_state_dict_pre_hooks.values():
            hook(self)
        numbers: dict[int, int] = {}
        for p in chain.from_iterable(g["params"] for g in self.param_groups):
            numbers.setdefault(id(p), len(numbers))
        groups = [
            {
                **{k: group[k] for k in group if k != "params"},
                "params": [numbers[id(p)] for p in group["params"]],
            }
            for group in self.param_groups
        ]
        # Updates that remember nothing, such as SGD's without momentum, leave no entry.
        state = {(numbers[id(k)] if is_tensor(k) else k): v for k, v in self.state.items() if v}
        packed: dict[str, Any] = {"state": state, "param_groups": groups}
        for hook in self._optimizer_state_dict_post_hooks.values():
            packed = _or(hook(self, packed), packed)
        return packed

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take over what `state_dict` gave, cast to each parameter's dtype and device."""
        state_dict = state_dict.copy()
        for hook in self._optimizer_load_state_dict_pre_hooks.values():
            state_dict = _or(hook(self, state_dict), state_dict)
        groups, saved = self.param_groups, deepcopy(state_dict["param_groups"])
        if len(groups) != len(saved):
            raise ValueError(
                f"loaded state dict has a different number of parameter groups: {len(saved)} "
                f"where the optimizer has {len(groups)}"
            )
        for i, (mine, theirs) in enumerate(zip(groups, saved, strict=True)):
            if len(mine["params"]) != len(theirs["params"]):
                raise ValueError(
                    "loaded state dict contains a parameter group that doesn't match the size of "
                    f"optimizer's group: group {i} has {len(theirs['params'])} parameters where "
                    f"the optimizer has {len(mine['params'])}"
                )
        holders = {
            number: (p, theirs)
            for mine, theirs in zip(groups, saved, strict=True)
            for number, p in zip(theirs["params"], mine["params"], strict=True)
        }
        state: defaultdict[Any, Any] = defaultdict(dict)
        for number, values in state_dict["state"].items():
            if number in holders:
                p, group = holders[number]
                state[p] = _fitted(values, p, self._counts_on_device(ParamGroup(group)))
            else:
                state[number] = values
        loaded = []
        for mine, theirs in zip(groups, saved, strict=True):
            theirs["params"] = mine["params"]
            if "param_names" in mine:
                theirs.setdefault("param_names", mine["param_names"])
            loaded.append(ParamGroup(theirs))
        self.__setstate__({"state": state, "param_groups": loaded})
        for hook in self._optimizer_load_state_dict_post_hooks.values():
            hook(self)

    # -- parameters ---------------------------------------------------------------------------

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Drop the gradients, or fill them with zeros."""
        free = CONTEXT.capture is None
        plain: Collection[type] = () if REPLACED else PLAIN
        for p in chain.from_iterable([g["params"] for g in self.param_groups]):
            if set_to_none:  # without reading: a captured step need not know what there was
                if free and (p.__class__ in plain or type(p).grad is PLAIN_GRAD):
                    if p._grad_meta is not None:
                        p._grad_meta.grad = None  # `p.grad = None`, without its way
                else:
                    p.grad = None
                continue
            grad = p.grad
            if grad is None:
                continue
            if grad.grad_fn is not None:
                grad.detach_()
            else:
                grad.requires_grad_(False)
            grad.zero_()

    def step(self, closure: Closure | None = None) -> Any:
        """Update the parameters; `closure` computes the loss anew and returns it."""
        raise NotImplementedError(f"{type(self).__name__} does not define step()")

    def _optimizer_step_code(self) -> None:
        """Nothing; PyTorch's profiler looks for it."""

    def _cuda_graph_capture_health_check(self) -> None:
        """Nothing: any step can be captured. Optimizers of one's own call it first."""

    _accelerator_graph_capture_health_check = _cuda_graph_capture_health_check

    def _check_parts(self, params: list[Any]) -> None:
        """Refuse parts of parameters where the update needs the whole."""
        if self.elementwise is False and any(getattr(p, "split_over", ()) for p in params):
            raise NotImplementedError(
                f"{type(self).__name__}: its update looks at whole parameters (rows, norms, inner "
                "products), but this process keeps only parts of them (fully_shard or "
                "parallelize_module). Use an optimizer that works element by element, such as "
                "AdamW, or keep the parameters whole: DistributedDataParallel with "
                "ZeroRedundancyOptimizer."
            )

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Add a group: `{"params": ..., "lr": ...}`, missing options from the defaults."""
        if not isinstance(param_group, dict):
            raise TypeError(f"param_group must be a dict, but got {type(param_group)}")
        group = ParamGroup(param_group)
        group["params"], names = _ordered(group["params"])
        if names:
            group["param_names"] = names
        for p in group["params"]:
            if not is_tensor(p):
                raise TypeError(
                    "optimizer can only optimize Tensors, but one of the params is "
                    f"{type(p).__name__}"
                    + (". Pass model.parameters()." if hasattr(p, "parameters") else "")
                )
            if not (self.defaults.get("differentiable") or p.is_leaf or p.retains_grad):
                raise ValueError(
                    "can't optimize a non-leaf Tensor. Give the optimizer the leaf it was made "
                    "from, or detach it first."
                )
        self._check_parts(group["params"])
        for name, default in self.defaults.items():
            if default is required and name not in group:
                raise ValueError(
                    "parameter group didn't specify a value of required optimization parameter "
                    f"{name}"
                )
            group.setdefault(name, default)
        if len({id(p) for p in group["params"]}) != len(group["params"]):
            warnings.warn(
                "optimizer contains a parameter group with duplicate parameters; in future, this "
                "will cause an error",
                stacklevel=3,
            )
        known: set[int] = set()
        for other in self.param_groups:
            known |= {id(p) for p in other["params"]}
            if ("param_names" in group) != ("param_names" in other):
                kind = "with names" if "param_names" in group else "without names"
                raise ValueError(
                    "all optimizer param groups should be with/without names. cannot add param "
                    f"group {kind} to the optimizer"
                )
        if not known.isdisjoint(id(p) for p in group["params"]):
            raise ValueError("some parameters appear in more than one parameter group")
        self.param_groups.append(group)


def _or(changed: Any, original: Any) -> Any:
    return original if changed is None else changed


def _ordered(params: Any) -> tuple[list[Any], list[str]]:
    """Parameters as a list, with their names where they came as pairs."""
    if is_tensor(params):
        return [params], []
    if isinstance(params, set):
        raise TypeError(
            "optimizer parameters need to be organized in ordered collections, but the ordering of "
            "tensors in sets will change between runs. Please use a list instead."
        )
    params = list(params)
    names = [p[0] for p in params if isinstance(p, tuple)]
    if names and len(names) != len(params):
        raise ValueError(
            "all optimizer params should be with/without names. Some param names are missing"
        )
    return [p[1] if isinstance(p, tuple) else p for p in params], names


def _fitted(value: Any, p: Tensor, counts_on_device: bool, key: Any = None) -> Any:
    """A deep copy of loaded state with tensors in the parameter's dtype and on its device."""
    if is_tensor(value):
        if key == "step":
            return value.to(device=p.device, dtype=float32) if counts_on_device else value
        dtype = p.dtype if p.is_floating_point() else value.dtype
        return value.to(device=p.device, dtype=dtype)
    if isinstance(value, dict):
        return {k: _fitted(v, p, counts_on_device, k) for k, v in value.items()}
    if isinstance(value, (list, tuple, set)):
        return type(value)(_fitted(v, p, counts_on_device) for v in value)
    return value


def _default_to_fused_or_foreach(
    params: list[Any], differentiable: bool, use_fused: bool = False
) -> tuple[bool, bool]:
    """Which of PyTorch's faster forms an optimizer should take: none, there is one."""
    return False, False


def _get_capturable_supported_devices(supports_xla: bool = True) -> list[str]:
    """Where an optimizer's step can be captured."""
    return ["cpu", "cuda"]
