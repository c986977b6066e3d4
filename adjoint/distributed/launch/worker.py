"""What a launched process runs first: it dies with its launcher, and leaves word of its error."""

from __future__ import annotations

import ctypes
import json
import os
import signal
import sys
import time

from adjoint.cli.run import run_script
from adjoint.distributed.groups import start
from adjoint.distributed.launch.names import ERROR_FILE, LAUNCHER

PR_SET_PDEATHSIG = 1


def die_with_launcher() -> None:
    """Have the system end this process when its launcher is gone, where it can (Linux)."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
    launcher = os.environ.get(LAUNCHER)
    if launcher is not None and os.getppid() != int(launcher):  # it went before we asked
        os._exit(1)


def leave_word(text: str) -> None:
    """Write what went wrong where the launcher looks for it."""
    path = os.environ.get(ERROR_FILE)
    if path:
        with open(path, "w") as file:
            json.dump({"message": text, "timestamp": time.time()}, file)


def main() -> int:
    """Run the program given as arguments: [-m] NAME ARGUMENTS..."""
    die_with_launcher()
    args = sys.argv[1:]
    as_module = args[0] == "-m"
    name, *rest = args[1:] if as_module else args
    try:
        code = run_script(name, rest, as_module=as_module)
    except (OSError, ModuleNotFoundError) as absent:  # before the program ran: it is not there
        leave_word(str(absent))
        return 1
    except SystemExit as leaving:
        if leaving.code not in (None, 0):
            start.abandon(f"it left with {leaving.code}")
            leave_word(f"SystemExit: {leaving.code}")
        raise
    if code:
        error = getattr(sys, "last_value", None)
        leave_word("an error" if error is None else f"{type(error).__name__}: {error}")
    return code


if __name__ == "__main__":
    sys.exit(main())
