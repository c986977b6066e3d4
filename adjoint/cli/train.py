"""`adjoint train`: a built-in recipe by name, or a Python file."""

from __future__ import annotations

import importlib
import pkgutil
import shlex
from collections.abc import Sequence
from pathlib import Path

from adjoint.cli.run import run_script
from adjoint.engine.core.errors import did_you_mean

RECIPES = "adjoint.training.recipes"
ALSO = {"text": "gpt"}  # what people call recipes, too


def recipes() -> dict[str, str]:
    """The built-in recipes and the first line of what they say of themselves."""
    package = importlib.import_module(RECIPES)
    names = [m.name for m in pkgutil.iter_modules(package.__path__) if not m.name.startswith("_")]
    return {
        name: (importlib.import_module(f"{RECIPES}.{name}").__doc__ or "").splitlines()[0]
        for name in names
    }


def meant(name: str, args: Sequence[str]) -> str:
    """The end of a message to someone who gave the data where the recipe's name belongs."""
    endings = {".csv": "csv", ".tsv": "csv", ".txt": "gpt", ".md": "gpt"}
    recipe = "images" if Path(name).is_dir() else endings.get(Path(name).suffix.lower())
    return (
        f". Did you mean `{shlex.join(['adjoint', 'train', recipe, name, *args])}`?"
        if recipe
        else ""
    )


def train_recipe(name: str | None, args: Sequence[str]) -> int:
    """Run a recipe, or a file as `adjoint run` does; without a name, list them."""
    if name is not None and name.endswith(".py"):
        return run_script(name, args, full_traceback=True)
    known = recipes()
    name = ALSO.get(name or "", name)
    if name in known:
        return int(importlib.import_module(f"{RECIPES}.{name}").main(list(args)) or 0)
    listing = "\n".join(f"  {recipe:<12}{said}" for recipe, said in known.items())
    if name is None:
        print(f"adjoint train RECIPE [--help]\n{listing}")
        return 0
    close = meant(str(name), args) or did_you_mean(str(name), known)
    raise ValueError(f"no recipe {name!r}{close or '; there is: ' + ', '.join(known)}")
