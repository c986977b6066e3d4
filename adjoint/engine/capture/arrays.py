"""What the recorder of Python is told about NumPy: methods of arrays, and generators."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from adjoint.engine.capture.python.c import methods
from adjoint.engine.capture.python.operators import pure
from adjoint.engine.capture.python.plain import is_plain


class _Draws(dict[str, Any]):
    """Methods of NumPy's generators: each draws a number, or is refused."""

    def get(self, name: str, default: Any = None, /) -> Any:
        def handler(recorder: Any, generator: Any, /, *args: Any, **kwargs: Any) -> Any:
            if not all(map(is_plain, (*args, *kwargs.values()))) or "state" in name:
                raise recorder.refuse(
                    f"{type(generator).__name__}.{name}",
                    "a recording draws single numbers only",
                    "Draw outside and pass the result.",
                )

            def take() -> Any:
                number = getattr(generator, name)(*args, **kwargs)
                if type(number) not in (int, float):
                    raise recorder.refuse(
                        f"{type(generator).__name__}.{name}",
                        f"it gives a {type(number).__name__}; a recording draws numbers only",
                        "Draw outside and pass the result, or draw with adjoint.rand.",
                    )
                return number

            return recorder.draw(generator, take, _keep_numpy)

        return handler


def _keep_numpy(generator: Any) -> Callable[[], None]:
    """What puts a generator back to where it is."""
    if isinstance(generator, np.random.RandomState):
        legacy = generator.get_state(legacy=False)
        return lambda: generator.set_state(legacy)
    state = generator.bit_generator.state
    return lambda: setattr(generator.bit_generator, "state", state)


def _array_method(name: str) -> Any:
    """A method of arrays that reads its elements and changes nothing."""
    method = getattr(np.ndarray, name)
    return lambda recorder, array, /, *args, **kwargs: pure(
        recorder, method, (array, *args), kwargs
    )


methods.TABLE[np.ndarray] = {
    name: _array_method(name)
    for name in (
        "all any argmax argmin argsort astype clip copy cumprod cumsum dot flatten item max mean "
        "min nonzero prod ravel repeat reshape round searchsorted squeeze std sum take tobytes "
        "tolist trace transpose var __len__ __float__ __int__ __bool__"
    ).split()
}
methods.TABLE[np.random.Generator] = _Draws()
methods.TABLE[np.random.RandomState] = _Draws()
