"""`adjoint explain script.py`: run a script, and write a page about what it compiled."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from adjoint.cli import torch_alias
from adjoint.cli.run import check_readable, execute, print_error
from adjoint.engine.capture.capture import Captured, keeping_all
from adjoint.engine.core.state.timeline import timed_runs


def explain_script(script: str, args: Sequence[str], output: str | None) -> int:
    """Run a script with its kernels timed; a page for each function that it compiled.

    `import torch` is answered by Adjoint, as by `adjoint run`. A script that
    fails is told about up to there.
    """
    check_readable(script)
    target = Path(output or f"{Path(script).stem}.html")
    if not target.parent.is_dir():
        raise FileNotFoundError(f"--output: there is no folder {str(target.parent)!r}")
    torch_alias.install()
    status = 0
    with keeping_all() as compiled, timed_runs():
        try:
            execute(Path(script), [script, *args])
        except SystemExit as leaving:
            status = leaving.code if isinstance(leaving.code, int) else int(bool(leaving.code))
        except BaseException as error:
            print_error(error, full=False)
            status = 1
    pages = write_pages(compiled, target)
    if not pages:
        print(
            "adjoint explain: the script compiled nothing; wrap a function: adjoint.compile(step)"
        )
        return status or 1
    for path, name in pages:
        print(f"{path}: {name}")
    return status


def write_pages(compiled: Sequence[Captured], target: Path) -> list[tuple[Path, str]]:
    """Pages about the functions that were called, the one that took longest first."""
    called = [function_of for function_of in compiled if function_of._latest is not None]
    called.sort(key=lambda function_of: -spent(function_of))
    pages = []
    for number, function in enumerate(called):
        path = target if number == 0 else target.with_stem(f"{target.stem}-{number + 1}")
        function.explain(html=path)
        pages.append((path, function.families.name))
    return pages


def spent(function: Captured) -> int:
    """Nanoseconds of a function's quickest run."""
    times: dict[Any, tuple[int, int]]
    times = getattr(function.latest.executable, "least_times", None) or {}
    return sum(took for took, _ in times.values())
