"""Programs in processes of their own, forked from one that has what they import loaded already.

To load the package takes half a second, longer than most programs of tests.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

ROOT = Path(__file__).resolve().parent.parent

# A child goes on as an interpreter that was given the program would: to the end, or to its error.
SERVER = """
import json, os, runpy, sys
for name in sys.argv[1:]:
    __import__(name)
from tests.quick_code import leave_out_passes
leave_out_passes()
for line in sys.stdin:
    sys.argv, folder, environment, said = json.loads(line)
    child = os.fork()
    if child == 0:
        for number, path in enumerate(said, 1):
            os.dup2(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), number)
        os.chdir(folder)
        os.environ.update(environment)
        sys.path[0] = os.path.dirname(sys.argv[0])
        runpy.run_path(sys.argv[0], run_name="__main__")
        sys.exit()
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
"""
# What training programs import: the parts of the package, and the compiler.
TRAINING = (
    "adjoint.nn.functional", "adjoint.optim", "adjoint.datasets",
    "adjoint.engine.backends.llvm.program.native", "adjoint.engine.backends.llvm.program.planning",
    "adjoint.engine.backends.llvm.small.meeting",
)  # fmt: skip


class Forking:
    """A process with modules loaded, which runs programs in children of its own."""

    def __init__(self, process: subprocess.Popen[str], folder: Path) -> None:
        self.process = process
        self.said = [folder / "out", folder / "err"]

    def run(
        self, program: Path, *arguments: str, folder: Path | None = None, **environment: str
    ) -> tuple[int, str, str]:
        """The exit status of a program, its output and what it said on stderr."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        task = [
            [str(program), *arguments],
            str(folder or Path.cwd()),
            environment,
            [str(path) for path in self.said],
        ]
        self.process.stdin.write(json.dumps(task) + "\n")
        self.process.stdin.flush()
        status = int(self.process.stdout.readline())
        out, err = [path.read_text() for path in self.said]
        return status, out, err

    def run_text(self, text: str) -> tuple[int, str, str]:
        """The same of a program's text, in the folder of the repository."""
        program = self.said[0].with_name("program.py")
        program.write_text(text)
        return self.run(program, folder=ROOT)


@contextmanager
def forking(*modules: str, **environment: str) -> Iterator[Forking]:
    """A process that has these modules loaded, begun with these variables in its environment."""
    paths = [str(ROOT), os.environ.get("PYTHONPATH", "")]
    with (
        TemporaryDirectory() as folder,
        subprocess.Popen(
            [sys.executable, "-c", SERVER, *modules],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, **environment, "PYTHONPATH": os.pathsep.join(filter(None, paths))},
        ) as process,
    ):
        yield Forking(process, Path(folder))
