"""`adjoint train`: a built-in recipe by name, or a Python file."""

from __future__ import annotations

import importlib
import pkgutil
import sys
from collections.abc import Sequence
from pathlib import Path

RECIPES = "adjoint.training.recipes"


def recipes() -> dict[str, str]:
    """The built-in recipes and the first line of what they say of themselves."""
    package = importlib.import_module(RECIPES)
    names = [m.name for m in pkgutil.iter_modules(package.__path__) if not m.name.startswith("_")]
    return {
        name: (importlib.import_module(f"{RECIPES}.{name}").__doc__ or "").splitlines()[0]
        for name in names
    }


def train_recipe(name: str | None, args: Sequence[str]) -> int:
    """Run a recipe; without a name, list them."""
    if name is not None and name.endswith(".py"):
        if not Path(name).is_file():
            print(f"adjoint train: there is no file {name!r}", file=sys.stderr)
            return 2
        from adjoint.cli.run import execute

        execute(Path(name), [name, *args])
        return 0
    known = recipes()
    if name in known:
        return int(importlib.import_module(f"{RECIPES}.{name}").main(list(args)) or 0)
    listing = "\n".join(f"  {each:<12}{said}" for each, said in known.items())
    if name is None:
        print(f"adjoint train RECIPE [--help]\n{listing}")
        return 0
    print(f"adjoint train: no recipe {name!r}. There are:\n{listing}", file=sys.stderr)
    return 2
