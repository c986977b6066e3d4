"""`torch.optim._multi_tensor`: optimizers with `foreach=True`, where older libraries find them."""

from __future__ import annotations

from functools import partialmethod
from typing import Any

from adjoint import optim as _optim


def _at_once(kind: type[Any]) -> type[Any]:
    """The optimizer, asked to update its parameters many at once."""
    names = {
        "__init__": partialmethod(kind.__init__, foreach=True),
        "__doc__": f"`{kind.__name__}` with `foreach=True`.",
        "__module__": __name__,
    }
    return type(kind.__name__, (kind,), names)


ASGD = _at_once(_optim.ASGD)
Adadelta = _at_once(_optim.Adadelta)
Adagrad = _at_once(_optim.Adagrad)
Adam = _at_once(_optim.Adam)
AdamW = _at_once(_optim.AdamW)
Adamax = _at_once(_optim.Adamax)
NAdam = _at_once(_optim.NAdam)
RAdam = _at_once(_optim.RAdam)
RMSprop = _at_once(_optim.RMSprop)
Rprop = _at_once(_optim.Rprop)
SGD = _at_once(_optim.SGD)
