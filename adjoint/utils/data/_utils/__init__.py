"""Where PyTorch keeps the parts of its loader that programs reach for."""

import atexit

from adjoint.utils.data._utils import collate as collate
from adjoint.utils.data._utils import fetch as fetch
from adjoint.utils.data._utils import pin_memory as pin_memory
from adjoint.utils.data._utils import signal_handling as signal_handling
from adjoint.utils.data._utils import worker as worker

HAS_NUMPY = True
MP_STATUS_CHECK_INTERVAL = 5.0  # seconds between looks at whether the others still live
python_exit_status = False  # whether the interpreter is ending


def _set_python_exit_flag() -> None:
    """Note that the interpreter ends, for iterators that are dropped afterwards."""
    global python_exit_status
    python_exit_status = True


atexit.register(_set_python_exit_flag)
