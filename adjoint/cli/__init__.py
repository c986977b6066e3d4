"""The `adjoint` command: run, train, info."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence


def main(argv: Sequence[str] | None = None) -> int:
    """Entry point of the command; returns the exit status."""
    parser = argparse.ArgumentParser(
        prog="adjoint", description="Deep learning in Python, with PyTorch's API."
    )
    commands = parser.add_subparsers(dest="command", required=True, metavar="command")

    run = commands.add_parser(
        "run", help="run a PyTorch script, `import torch` answered by Adjoint"
    )
    run.add_argument("-m", dest="as_module", action="store_true", help="a module, not a file")
    run.add_argument("--full-traceback", action="store_true", help="show Adjoint's own frames too")
    run.add_argument("script", help="the file (or, with -m, the module) to run")
    run.add_argument("args", nargs=argparse.REMAINDER, help="what the script finds in sys.argv")

    train = commands.add_parser("train", help="train a built-in recipe, or run a Python file")
    train.add_argument("recipe", nargs="?", help="a recipe's name or a .py file; none lists them")
    train.add_argument("args", nargs=argparse.REMAINDER, help="the recipe's own arguments")

    info = commands.add_parser("info", help="versions, devices, threads, cache of kernels")
    info.add_argument("--clear-cache", action="store_true", help="empty the cache of kernels")

    chosen = parser.parse_args(argv)
    if chosen.command == "run":
        from adjoint.cli.run import run_script

        return run_script(
            chosen.script,
            chosen.args,
            as_module=chosen.as_module,
            full_traceback=chosen.full_traceback,
        )
    if chosen.command == "train":
        from adjoint.cli.train import train_recipe

        return train_recipe(chosen.recipe, chosen.args)
    from adjoint.cli.info import clear_cache, report

    print(clear_cache() if chosen.clear_cache else report())
    return 0


if __name__ == "__main__":
    sys.exit(main())
