"""Marks of PyTorch's script compiler, which change nothing here."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from weakref import WeakKeyDictionary

# What `boolean_dispatch` made, and from what.
boolean_dispatched: WeakKeyDictionary[Callable[..., Any], dict[str, Any]] = WeakKeyDictionary()


def _copy_to_script_wrapper(fn: Any) -> Any:
    """The function itself."""
    return fn


def boolean_dispatch(
    arg_name: str,
    arg_index: int,
    default: bool,
    if_true: Callable[..., Any],
    if_false: Callable[..., Any],
    module_name: str,
    func_name: str,
) -> Callable[..., Any]:
    """A function that calls one of two, as an argument of its own says.

    Args:
        arg_name: the argument that decides, by name.
        arg_index: where it stands among the positional ones.
        default: its value where it is not given.
        if_true: what is called where it is true.
        if_false: what is called else.
        module_name: of the function made.
        func_name: its name.

    Example:
        >>> both = boolean_dispatch("neg", 1, False, lambda x, neg: -x, lambda x: x, "m", "both")
        >>> both(3)
        3
    """

    def fn(*args: Any, **kwargs: Any) -> Any:
        chosen = args[arg_index] if len(args) > arg_index else kwargs.get(arg_name, default)
        return if_true(*args, **kwargs) if chosen else if_false(*args, **kwargs)

    documented = if_false if if_true.__doc__ is None else if_true
    fn.__doc__, fn.__name__, fn.__module__ = documented.__doc__, func_name, module_name
    boolean_dispatched[fn] = {
        "if_true": if_true,
        "if_false": if_false,
        "index": arg_index,
        "default": default,
        "arg_name": arg_name,
    }
    return fn


class BroadcastingListCls:
    """What annotations of PyTorch's layers are made with: `BroadcastingList2[int]`."""

    def __getitem__(self, types: Any) -> None:
        return None


BroadcastingList1 = BroadcastingListCls()
for _count in range(2, 7):
    globals()[f"BroadcastingList{_count}"] = BroadcastingList1
