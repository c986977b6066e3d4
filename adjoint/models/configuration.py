"""What the configuration of a published model may say: checked before anything is made of it.

A configuration is a small file that decides how much is made: how many layers, of which widths.
`check_config` looks at each number by itself; `made_for_loading` sees to it that no more is made
than the weights, which lie beside it, can fill.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import fields
from numbers import Integral, Real
from threading import get_ident
from typing import Any

from adjoint.engine.core.dtype import DType, get_default_dtype, set_default_dtype
from adjoint.engine.core.files.budget import Budget
from adjoint.engine.core.state.context import CONTEXT
from adjoint.nn.modules.base.hooks import register_module_parameter_registration_hook


def is_size(value: Any) -> bool:
    """Whether a value is a whole number of at least 1 that 64 bits hold; a truth is none."""
    return isinstance(value, Integral) and not isinstance(value, bool) and 1 <= int(value) < 2**63


def _is_number(value: Any) -> bool:
    if not isinstance(value, Real) or isinstance(value, bool):
        return False
    try:
        return math.isfinite(value) and float(value) >= 0
    except OverflowError:  # a whole number beyond every float
        return False


# By a field's type: whether a value is one, and what is wanted.
KINDS: dict[str, tuple[Callable[[Any], bool], str]] = {
    "int": (is_size, "a whole number from 1 to 2**63 - 1"),
    "float": (_is_number, "a finite number of at least 0"),
    "str": (lambda value: isinstance(value, str), "a text"),
    "bool": (lambda value: isinstance(value, bool), "True or False"),
}


def check_config(config: Any) -> None:
    """Refuse a configuration that states something else than sizes, rates and names.

    Rates are kept as floats: a file may write one as a whole number that no integer's bits hold.

    Example:
        >>> from adjoint.models import GPT2Config
        >>> GPT2Config(n_layer=-1)
        Traceback (most recent call last):
            ...
        ValueError: GPT2Config: n_layer must be a whole number from 1 to 2**63 - 1, received -1
    """
    for field in fields(config):
        value = getattr(config, field.name)
        fits, wanted = KINDS.get(str(field.type), (None, ""))
        if fits is not None and not fits(value):
            raise ValueError(
                f"{type(config).__name__}: {field.name} must be {wanted}, received "
                f"{str(value)[:80] if isinstance(value, Real) else repr(value)[:80]}"
            )
        if field.type == "float":
            object.__setattr__(config, field.name, float(value))  # configurations are frozen


def check_heads(config: Any, width: str, heads: str) -> None:
    """Refuse heads that do not divide a width."""
    if getattr(config, width) % getattr(config, heads):
        raise ValueError(
            f"{type(config).__name__}: {heads} must divide {width}, received "
            f"{getattr(config, heads)} and {getattr(config, width)}"
        )


def stated(about: Mapping[str, Any], name: str, who: str) -> Any:
    """What a file states under a name that it must have."""
    if name not in about:
        raise ValueError(f"{who}: the file does not state {name}")
    return about[name]


@contextmanager
def made_for_loading(
    shapes: Iterable[tuple[int, ...]], dtype: DType | None = None, besides: int = 0
) -> Iterator[None]:
    """Parameters of this dtype, with no values drawn: every one is about to be replaced.

    Far more of them than there are weights is an error before they are made: a tied weight is
    made up to three times, nothing more often.

    Args:
        shapes: of the weights.
        dtype: the default one if None.
        besides: bytes of tables that are made beside the parameters.
    """
    sizes = [math.prod(shape) for shape in shapes]
    Budget(4 * sum(sizes), "from_pretrained").spend(besides, "tables beside the weights")
    room = {"tensors": 4 * len(sizes) + 64, "elements": 4 * sum(sizes) + (1 << 20)}
    thread = get_ident()

    def count(module: Any, name: str, parameter: Any) -> None:
        if get_ident() == thread and parameter is not None:
            room["tensors"] -= 1
            room["elements"] -= parameter.numel()
            if min(room.values()) < 0:
                raise RuntimeError(
                    "from_pretrained: the configuration asks for more than the weights beside it "
                    f"are: {len(sizes)} tensors of {sum(sizes)} elements"
                )

    before = get_default_dtype()
    set_default_dtype(before if dtype is None else dtype)
    hook = register_module_parameter_registration_hook(count)
    try:
        with CONTEXT.having(initialise=False):
            yield
    finally:
        hook.remove()
        set_default_dtype(before)
