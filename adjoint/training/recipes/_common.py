"""What recipes share: their options, the data's division, a run, and how it ends."""

from __future__ import annotations

import argparse
import itertools
import math
import shlex
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

from adjoint import nn, optim
from adjoint.data import DataLoader
from adjoint.engine.core.arguments import Parser, positive, rate, seed
from adjoint.engine.core.errors import did_you_mean
from adjoint.io import load, save
from adjoint.metrics import Metric
from adjoint.random import manual_seed
from adjoint.training.recipes import _going_on
from adjoint.training.recipes._going_on import LAST
from adjoint.training.trainer import Trainer

MODEL = "model.pt"  # what `adjoint predict` reads


def no_file(path: str) -> OSError:
    """What is raised where a file was to be."""
    if Path(path).is_dir():
        return IsADirectoryError(f"{path} is a folder; give one file")
    return FileNotFoundError(f"there is no file {path!r}")


def options(name: str, about: str | None, *, epochs: int, batch: int, lr: float) -> Parser:
    """The options that every recipe has."""
    parser = Parser(prog=f"adjoint train {name}", description=about)
    parser.add_argument(
        "--epochs", type=positive, default=epochs, help=f"times through the data ({epochs})"
    )
    parser.add_argument(
        "--batch-size", type=positive, default=batch, help=f"samples of one step ({batch})"
    )
    parser.add_argument("--lr", type=rate, help=f"how far a step goes ({lr})")
    parser.set_defaults(usual_lr=lr, usual_batch=batch)
    parser.add_argument("--seed", type=seed, default=0, help="of all that is random (0)")
    parser.add_argument(
        "--folder",
        default=f"runs/{name}",
        help=f"where checkpoint, model and picture go (runs/{name})",
    )
    parser.add_argument(
        "--compile",
        action=argparse.BooleanOptionalAction,
        default=True,
        help="train with native code (the default: often several times as fast)",
    )
    parser.add_argument(
        "--resume",
        help="a checkpoint to continue from, or the folder it is in; --epochs counts those it has "
        "done, and all else stays as it was unless it is given",
    )
    return parser


def begin(
    parser: Parser, arguments: Sequence[str], recipe: str, settings: Sequence[str] = ()
) -> argparse.Namespace:
    """Read the options; what cannot work is refused now, not after an epoch.

    Args:
        parser: of the recipe.
        arguments: what the user wrote.
        recipe: its name.
        settings: its options that belong to the weights: a run that goes on keeps them.
    """
    chosen = _going_on.parsed(parser, arguments, recipe, ("seed", *settings))
    for folder in (Path(chosen.folder), *Path(chosen.folder).parents):
        if folder.exists() and not folder.is_dir():
            raise NotADirectoryError(f"--folder: {folder} is a file; give a folder")
    chosen.new_lr = chosen.lr  # what was asked for, also of a run that goes on
    chosen.lr = chosen.usual_lr if chosen.lr is None else chosen.lr
    manual_seed(chosen.seed)
    return chosen


class RecipeTrainer(Trainer):
    """A trainer whose checkpoints say what they are of: recipe, settings, meaning, division."""

    record: Mapping[str, Any] = MappingProxyType({})
    began = 0  # epochs that were done before this run

    def state_dict(self, train: Any = None) -> dict[str, Any]:
        """What continuing needs, and what it must not go on without."""
        return super().state_dict(train) | {"record": dict(self.record)}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue; another network's weights are refused."""
        self.check_state(state)
        self.refuse_another_network(state["model"])
        super().load_state_dict(state)
        self.began = self.epoch

    def _how_to_resume(self) -> str:
        """The option that goes on, as whoever gave a command wants it."""
        last = Path(self.folder or ".") / LAST
        if not last.is_file():
            return "no epoch was finished, so there is no checkpoint yet"
        return f"the same command with --resume {last} goes on after epoch {self.epoch}"

    def refuse_another_network(self, weights: Any) -> None:
        """Say in one line that a checkpoint's weights are not this network's."""
        weights = weights if isinstance(weights, Mapping) else {}
        shapes = {name: tuple(x.shape) for name, x in self.model.state_dict().items()}
        there = {name: tuple(x.shape) for name, x in weights.items() if hasattr(x, "shape")}
        other = [name for name in (*shapes, *there) if shapes.get(name) != there.get(name)]
        if other:
            received, wanted = there.get(other[0], "nothing"), shapes.get(other[0], "nothing")
            raise ValueError(
                f"--resume: the checkpoint is of another network ({other[0]!r} is {received} "
                f"there, {wanted} here): of another recipe, or of other options. Repeat the "
                "command that wrote it, or train anew, without --resume."
            )


def fit(
    model: nn.Module,
    loss: Callable[[Any, Any], Any],
    train: Any,
    test: Any,
    chosen: argparse.Namespace,
    metrics: Sequence[Metric] = (),
) -> RecipeTrainer:
    """Train with Adam and a cosine schedule; checkpoints and curves go into the folder."""
    optimizer = optim.AdamW(model.parameters(), lr=chosen.lr, weight_decay=0.01)
    schedule = optim.lr_scheduler.CosineAnnealingLR(optimizer, chosen.epochs)
    trainer = RecipeTrainer(
        model,
        optimizer,
        loss,
        metrics=metrics,
        scheduler=schedule,
        compile=chosen.compile,
        clip_norm=1.0,
        folder=chosen.folder,
    )
    trainer.record = chosen.record
    if chosen.before is not None:
        trainer.load_state_dict(chosen.before)
        if chosen.new_lr is not None:
            schedule.base_lrs = [chosen.new_lr for _ in schedule.base_lrs]
            for group in optimizer.param_groups:
                group["initial_lr"] = chosen.new_lr
        if chosen.new_lr is not None or schedule.T_max != chosen.epochs:
            stretch(schedule, chosen.epochs)
    Path(chosen.folder).mkdir(parents=True, exist_ok=True)
    if trainer.epoch >= chosen.epochs:
        print(f"{trainer.epoch} epochs are done, and --epochs counts them: nothing to train. "
              f"Give --epochs {2 * trainer.epoch} to go on.")  # fmt: skip
        return trainer
    set_aside(chosen)
    trainer.fit(
        DataLoader(train, batch_size=min(chosen.batch_size, len(train)), shuffle=True),
        DataLoader(test, batch_size=min(256, len(test))),
        epochs=chosen.epochs,
    )
    return trainer


def set_aside(chosen: argparse.Namespace) -> None:
    """Make room for a run: it is not to be taken for an earlier one, nor to write over its model.

    A run that goes on replaces its own; another's goes into a folder within.
    """
    folder = Path(chosen.folder)
    if chosen.resume is not None and Path(chosen.resume).resolve() == (folder / LAST).resolve():
        (folder / MODEL).unlink(missing_ok=True)
    if not (folder / MODEL).is_file():
        return
    number = next(k for k in itertools.count(1) if not (folder / f"earlier-{k}").exists())
    aside = folder / f"earlier-{number}"
    aside.mkdir()
    for name in (MODEL, LAST):
        if (folder / name).is_file():
            (folder / name).rename(aside / name)
    print(f"{folder} had a model in it, which is in {aside} now")


def stretch(schedule: optim.lr_scheduler.CosineAnnealingLR, epochs: int) -> None:
    """Have a schedule end after another number of epochs; a finished one's rate is 0."""
    schedule.T_max = epochs
    share = (1 + math.cos(math.pi * min(schedule.last_epoch, epochs) / epochs)) / 2
    for group, base in zip(schedule.optimizer.param_groups, schedule.base_lrs, strict=True):
        group["lr"] = base * share


def keep(
    folder: str,
    recipe: str,
    model: nn.Module,
    settings: dict[str, Any],
    *,
    trained: bool = True,
) -> None:
    """Write what `adjoint predict` needs: weights, and how inputs become numbers.

    Where nothing was trained, a model that is there stays as it is.
    """
    if not trained and (Path(folder) / MODEL).is_file():
        return
    content = {"recipe": recipe, "settings": settings, "weights": model.state_dict()}
    save(content, Path(folder) / MODEL)


def kept_settings(folder: str, recipe: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Settings and weights that `keep` wrote."""
    content = kept_by(folder)
    if content["recipe"] != recipe:
        raise ValueError(f"{folder}: was trained by {content['recipe']!r}, not by {recipe!r}")
    return content["settings"], content["weights"]


def kept_by(folder: str) -> dict[str, Any]:
    """What `keep` wrote into a folder; its file may be given as well."""
    path = Path(folder) if Path(folder).name == MODEL else Path(folder) / MODEL
    if not path.is_file():
        last, others = path.parent / LAST, path.parent.parent.glob(f"*/{MODEL}")
        remedy = did_you_mean(str(path.parent), (str(other.parent) for other in others))
        if last.is_file():
            remedy = f"; the same with --resume {last} goes on to the end"
        raise FileNotFoundError(
            f"there is no {path}; `adjoint train csv`, `images` and `gpt` write it when they end"
            f"{remedy}"
        )
    content = load(path)
    if not isinstance(content, dict) or content.keys() != {"recipe", "settings", "weights"}:
        raise ValueError(f"{path}: not what `adjoint train` writes")
    return content


def not_text(path: str, encoding: str) -> ValueError:
    """The refusal of a file in another encoding."""
    name = encoding.removesuffix("-sig")
    with open(path, "rb") as file:
        if file.read(2) in (b"\xff\xfe", b"\xfe\xff"):
            return ValueError(f"{path}: UTF-16, not {name}. Pass --encoding utf-16.")
    return ValueError(
        f"{path}: not {name} text. Pass its encoding, such as --encoding cp1252 (western Europe), "
        "cp1251 (Cyrillic), gb18030 (Chinese) or shift_jis (Japanese)."
    )


def command(*words: str) -> str:
    """A command line to copy."""
    return shlex.join(["adjoint", *words])


def place(chosen: argparse.Namespace, name: str) -> list[str]:
    """The option that trains into the same folder again, where it is needed."""
    return [] if chosen.folder == f"runs/{name}" else ["--folder", chosen.folder]


def longer(recipe: str, trainer: Trainer, chosen: argparse.Namespace) -> list[str]:
    """The options that go on from what a run left, for as long again."""
    again = ["--seed", str(chosen.seed)] if chosen.seed else []  # which divides the data
    if chosen.batch_size != chosen.usual_batch:
        again += ["--batch-size", str(chosen.batch_size)]
    again += [] if chosen.compile else ["--no-compile"]
    last = str(Path(chosen.folder) / LAST)
    return [*place(chosen, recipe), *again, "--epochs", str(2 * trainer.epoch), "--resume", last]


def still_learns(trainer: Trainer) -> bool:
    """Whether the last quarter of a run brought something, so that more may bring more."""
    losses = [entry["validation_loss"] for entry in trainer.history if "validation_loss" in entry]
    before = losses[: len(losses) * 3 // 4]
    return len(losses) < 4 or min(losses) < 0.98 * min(before)


def finish(result: str, folder: str, picture: str | None, next_steps: Sequence[str]) -> None:
    """Say how it went, where things are, and what to do next."""
    print(f"\n{result}")
    if (Path(folder) / LAST).is_file():
        print(f"  checkpoint  {Path(folder) / LAST}")
    if (Path(folder) / MODEL).is_file():
        print(f"  model       {Path(folder) / MODEL}")
    if picture is not None:
        print(f"  picture     {picture}")
    print("next:")
    for line in next_steps:
        print(f"  {line}")
