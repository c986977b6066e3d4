"""Resuming a run: with the options, the meaning of the data and the split of the first run.

A run that cannot be resumed so is refused.
"""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

from adjoint.io import load
from adjoint.training.recipes._division import Division, Samples, divided
from adjoint.training.trainer import Trainer

LAST = "last.pt"  # the checkpoint that an epoch leaves


def checkpoint(path: str) -> str:
    """The file that `--resume` means: a folder's own, if that is what was given."""
    file = Path(path) / LAST if Path(path).is_dir() else Path(path)
    if not file.is_file():
        raise FileNotFoundError(f"--resume: there is no file {str(file)!r}")
    return str(file)


def parse(
    parser: argparse.ArgumentParser, arguments: Sequence[str], recipe: str, settings: Sequence[str]
) -> argparse.Namespace:
    """The options; a run that goes on has the checkpoint's, where none are given.

    Args:
        parser: of the recipe.
        arguments: what the user wrote.
        recipe: its name.
        settings: the options without which the weights would mean something else.
    """
    actions = [action for action in parser._actions if action.dest not in ("help", "resume")]
    names = [action.dest for action in actions]
    chosen = parser.parse_args(list(arguments), argparse.Namespace(**dict.fromkeys(names)))
    given = {name: value for name in names if (value := getattr(chosen, name)) is not None}
    for name in names:
        setattr(chosen, name, given.get(name, parser.get_default(name)))
    chosen.given, chosen.before = set(given), None
    if chosen.resume is not None:
        chosen.resume = checkpoint(chosen.resume)
        chosen.before = read(chosen.resume)
        follow(parser, chosen, given, recipe, settings)
    kept = {name: getattr(chosen, name) for name in names if name != "folder"}
    chosen.record = {
        "recipe": recipe,
        "settings": {name: kept[name] for name in settings},
        "options": {name: value for name, value in kept.items() if name not in settings},
        "meaning": {},
    }
    data = [kept[action.dest] for action in actions if not action.option_strings]
    chosen.command = ["train", recipe, *(part for part in data if part is not None)]
    return chosen


def read(path: str) -> dict[str, Any]:
    """A checkpoint; anything else is refused."""
    try:
        content: dict[str, Any] = load(path)
        Trainer.check_state(content)
    except (RuntimeError, ValueError) as error:
        raise ValueError(
            f"--resume: {path} is no checkpoint of training. Give the folder that it was trained "
            f"into, such as runs/csv, or {LAST} in it."
        ) from error
    return content


def follow(
    parser: argparse.ArgumentParser,
    chosen: argparse.Namespace,
    given: Mapping[str, Any],
    recipe: str,
    settings: Sequence[str],
) -> None:
    """Take a checkpoint's options and folder, where no others are given; say which change.

    Other settings are refused, since the weights are of these.
    """
    there = chosen.before.get("record")
    if not isinstance(there, dict):
        raise ValueError(
            f"--resume: {chosen.resume} does not say what it was trained on: a program wrote it, "
            "or another version of Adjoint. Train anew, without --resume."
        )
    if there["recipe"] != recipe:
        raise ValueError(
            f"--resume: {chosen.resume} is of another network: of `adjoint train "
            f"{there['recipe']}`. Go on with that, or train anew, without --resume."
        )
    if "folder" not in given:
        chosen.folder = str(Path(chosen.resume).parent)
    before = there.get("options", {}) | there["settings"]
    for name, trained in before.items():
        if name in given and given[name] != trained:
            option = option_of(parser, name)
            if name in settings:
                raise ValueError(
                    f"--resume: the checkpoint was trained {as_typed(option, trained)}, and "
                    f"goes on so. Leave {option} out, or train anew, without --resume."
                )
            print(f"goes on {as_typed(option, given[name])}; so far {as_typed(option, trained)}")
        else:
            setattr(chosen, name, trained)


def option_of(parser: argparse.ArgumentParser, name: str) -> str:
    """How an option is written.

    >>> parser = argparse.ArgumentParser()
    >>> _ = parser.add_argument("--as", dest="kind")
    >>> option_of(parser, "kind")
    '--as'
    """
    actions = (action for action in parser._actions if action.dest == name)
    return next((action.option_strings[0] for action in actions if action.option_strings), name)


def as_typed(option: str, value: Any) -> str:
    """How a setting was, as one writes it.

    >>> as_typed("--size", 64), as_typed("--without", []), as_typed("--exact", True)
    ('with --size 64', 'without --without', 'with --exact')
    """
    if value is None or value is False or value in ("", []):
        return f"without {option}"
    if value is True:
        return f"with {option}"
    values = value if isinstance(value, list) else [value]
    return "with " + shlex.join(word for one in values for word in (option, str(one)))


def check_meaning(chosen: argparse.Namespace, **meaning: Any) -> None:
    """Have checkpoints say what inputs and outputs stand for: characters, classes, columns.

    A run that goes on from one of another meaning is refused.
    """
    there = {} if chosen.before is None else chosen.before["record"]["meaning"]
    for name, value in meaning.items():
        if name in there and there[name] != value:
            raise ValueError(
                f"--resume: the checkpoint is of data with other {name}, which its numbers stand "
                f"for{differing(there[name], value)}. Go on with that data, or train anew, without "
                "--resume."
            )
    chosen.record["meaning"] |= meaning


def differing(there: Any, here: Any) -> str:
    """What two lists of names do not share, in brackets; nothing for anything else.

    >>> differing(["cat", "dog"], ["cat", "cow"])
    " ('dog' there, 'cow' here)"
    """
    if not all(isinstance(x, list) and all(isinstance(n, str) for n in x) for x in (there, here)):
        return ""
    only = [
        ", ".join(repr(name) for name in one if name not in other)
        for one, other in ((there, here), (here, there))
    ]
    parts = [
        f"{names} {place}" for names, place in zip(only, ("there", "here"), strict=True) if names
    ]
    return f" ({', '.join(parts)})" if parts else ""


def carried_over(chosen: argparse.Namespace, name: str, value: Any) -> Any:
    """A value that checkpoints keep: the one of the run that this one goes on from, if it does."""
    there = MappingProxyType({}) if chosen.before is None else chosen.before["record"]
    chosen.record[name] = there.get(name, value)
    return chosen.record[name]


def split(chosen: argparse.Namespace, samples: Samples, what: str) -> Division:
    """Samples to learn from and to test on, as the run that this one goes on from had them."""
    before = None if chosen.before is None else chosen.before["record"]["division"]
    division = divided(samples, before, what)
    chosen.record["division"] = division.record
    if division.said:
        print(f"{what} other than those of {chosen.resume}: {division.said}; the rest as before")
    return division
