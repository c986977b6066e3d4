"""Where operations run; also, under PyTorch's names, the settings of vendor libraries.

`backends.cuda` and `backends.cudnn` hold what programs set (`core.state.switches` says what each of
these does), `backends.mkldnn`, `backends.mps` and others say that they are not there.
"""

from __future__ import annotations

from typing import Any

from adjoint.engine.core.availability.absent import ABSENT, facade
from adjoint.engine.core.state.loading import brought as _brought
from adjoint.engine.core.state.loading import lacking as _lacking

SETTINGS = ("cpu", "cuda", "cudnn", "mha", "opt_einsum", "quantized")
# Entered among the modules at once, so that `import adjoint.backends.mps` finds them.
FACADES = {
    path.removeprefix("backends."): facade(path) for path in ABSENT if path.startswith("backends.")
}


def __getattr__(name: str) -> Any:
    if name in FACADES:
        return FACADES[name]
    if name in SETTINGS:
        return _brought(f"adjoint.backends.{name}")
    raise _lacking(__name__, name)


def __dir__() -> list[str]:
    return sorted({*globals(), *SETTINGS, *FACADES})
