"""`adjoint run script.py`: an unmodified PyTorch script on Adjoint."""

from __future__ import annotations

import ast
import builtins
import importlib.util
import io
import linecache
import os
import runpy
import sys
import traceback
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType, TracebackType
from typing import Any

from adjoint.cli import torch_alias
from adjoint.engine.core.ownership import is_own, module_of

PACKAGE = str(Path(__file__).resolve().parent.parent) + os.sep
COMMAND = str(Path(__file__).resolve().parent) + os.sep
# What a user of the framework does not want to read on the way to the message.
HIDDEN = (
    "engine/",
    "__init__.py",
)
OURS = ("adjoint", "torch")  # `torch` is the name the top module goes by
MACHINERY = tuple(PACKAGE + name.replace("/", os.sep) for name in HIDDEN)


def run_script(
    script: str, args: Sequence[str], *, as_module: bool = False, full_traceback: bool = False
) -> int:
    """Run a script (or module) as `python` would, with `torch` meaning Adjoint."""
    entry = None if as_module or Path(script).is_file() else find_command(script)
    if entry is None and not as_module:
        check_readable(script)
    torch_alias.install()
    if as_module:
        sys.path.insert(0, str(Path.cwd()))
        check_module(script)
    try:
        if entry is not None:
            sys.argv = [script, *args]
            sys.exit(entry.load()())
        if as_module:
            sys.argv = [script, *args]
            runpy.run_module(script, run_name="__main__", alter_sys=True)
        else:
            execute(Path(script), [script, *args])
    except (SystemExit, KeyboardInterrupt):
        raise
    except BaseException as error:
        sys.last_value = error  # as Python does for those at exit who ask how it went
        print_error(error, full_traceback)
        return 1
    return 0


def find_command(name: str) -> Any:
    """The command that an installed library provides under a name: `accelerate`."""
    from importlib.metadata import entry_points  # with `email`: scripts are files, mostly

    return next(iter(entry_points(group="console_scripts", name=name)), None)


def check_readable(script: str) -> None:
    """Refuse a script that is no file, or may not be read."""
    if not Path(script).is_file():
        raise FileNotFoundError(f"there is no file {script!r}")
    with open(script, "rb"):
        pass


def check_module(name: str) -> None:
    """Refuse a module that is not there; one that fails when imported is the script's matter."""
    try:
        exists = importlib.util.find_spec(name) is not None
    except ModuleNotFoundError as error:
        if error.name is None or not name.startswith(error.name):
            raise
        exists = False
    if not exists:
        raise ModuleNotFoundError(f"there is no module {name!r}", name=name)


def execute(path: Path, argv: list[str]) -> None:
    """Run a file as `__main__`: its module is the real one, so pickling and workers find it."""
    path = path.resolve() if path.is_symlink() else path.absolute()
    main = ModuleType("__main__")
    main.__file__ = str(path)
    main.__dict__["__builtins__"] = builtins
    sys.modules["__main__"] = main
    sys.argv = argv
    sys.path.insert(0, str(path.parent))
    with io.open_code(str(path)) as file:
        source = file.read()
    # This file's `from __future__ import annotations` is not the script's.
    exec(compile(source, str(path), "exec", dont_inherit=True), main.__dict__)


# -- errors ---------------------------------------------------------------------------------------


def print_error(error: BaseException, full: bool) -> None:
    """The traceback without the command's and (unless `full`) the machinery's frames."""
    shown = traceback.TracebackException.from_exception(error)
    part: traceback.TracebackException | None = shown
    while part is not None:
        if not full and part.__cause__ is not None and internal(part.__cause__):
            part.__cause__, part.__suppress_context__ = None, True
        part.stack = readable(part.stack, full)
        part = part.__cause__ or part.__context__
    sys.stdout.flush()
    print("".join(shown.format()), end="", file=sys.stderr)
    missing = missing_feature(error)
    if missing is not None:
        where = script_line(error.__traceback__)
        at = "" if where is None else f" ({where[0]}, line {where[1]})"
        print(f"adjoint run: Adjoint does not have {missing} yet{at}", file=sys.stderr)


def internal(error: traceback.TracebackException) -> bool:
    """Whether an error arose and was caught inside the machinery."""
    return all(frame.filename.startswith(MACHINERY) for frame in error.stack)


def readable(stack: traceback.StackSummary, full: bool) -> traceback.StackSummary:
    """Drop frames before the script's first, and the machinery's after it."""

    def foreign(frame: traceback.FrameSummary) -> bool:
        return frame.filename.startswith((COMMAND, "<frozen runpy>", "<frozen importlib"))

    frames = [frame for frame in stack if not foreign(frame)]
    if not full:
        outside = [frame for frame in frames if not machinery(frame)]
        frames = outside or frames
    return traceback.StackSummary.from_list(frames)


def machinery(frame: traceback.FrameSummary) -> bool:
    """Whether a frame says nothing to the script's author."""
    looked_up = frame.name == "__getattr__" and frame.filename.startswith(PACKAGE)
    return looked_up or frame.filename.startswith(MACHINERY)


def script_line(tb: TracebackType | None) -> tuple[str, int] | None:
    """File and line of the innermost frame that is not Adjoint's or the import system's."""
    place = None
    for frame in traceback.extract_tb(tb):
        if not frame.filename.startswith((PACKAGE, "<frozen")) and frame.lineno is not None:
            place = frame.filename, frame.lineno
    return place


def missing_feature(error: BaseException) -> str | None:
    """The PyTorch name a script asked for in vain, if that is what stopped it."""
    if isinstance(error, ModuleNotFoundError):
        name = error.name or ""
        return name if name.split(".")[0] in torch_alias.PACKAGES else None
    if isinstance(error, ImportError):
        if error.name is None or error.name.split(".")[0] not in OURS:
            return None
        module, wanted = torch_alias.torch_name(error.name), _missing_import(error)
        return module if wanted is None else f"{module}.{wanted}"
    if isinstance(error, AttributeError) and error.name is not None:
        owner = error.obj
        if isinstance(owner, ModuleType) and owner.__name__.split(".")[0] in OURS:
            return f"{torch_alias.torch_name(owner.__name__)}.{error.name}"
        kind = owner if isinstance(owner, type) else type(owner)
        if is_own(kind) and not error.name.startswith("__"):
            return f"{_public_home(kind)}.{kind.__name__}.{error.name}"
    return None


def _public_home(kind: type) -> str:
    """The outermost module that has a class: `torch` for `Tensor`, `torch.nn` for `Linear`."""
    parts = module_of(kind).split(".")
    for end in range(1, len(parts) + 1):
        name = ".".join(parts[:end])
        if getattr(sys.modules.get(name), "__dict__", {}).get(kind.__name__) is kind:
            return torch_alias.torch_name(name)
    return torch_alias.torch_name(module_of(kind))


def _missing_import(error: ImportError) -> str | None:
    """Which of the names of the failing `from torch.x import a, b` is not there."""
    where = script_line(error.__traceback__)
    module = sys.modules.get(error.name or "")
    if where is None or module is None:
        return None
    tree = ast.parse("".join(linecache.getlines(where[0])))
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.lineno <= where[1] <= (node.end_lineno or 0):
            for alias in node.names:
                if alias.name != "*" and not hasattr(module, alias.name):
                    return alias.name
    return None
