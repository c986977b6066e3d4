"""What recipes share: their options, the data's division, a run, and how it ends."""

from __future__ import annotations

import argparse
import itertools
import math
import shlex
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from tempfile import NamedTemporaryFile
from types import MappingProxyType
from typing import Any

from adjoint import nn, optim
from adjoint.data import DataLoader
from adjoint.engine.core.arguments import Parser, positive, rate, seed
from adjoint.io import load, save
from adjoint.io.checkpoint import rng_state, set_rng_state
from adjoint.metrics import Metric
from adjoint.random import manual_seed
from adjoint.training.recipes import _resuming
from adjoint.training.recipes._resuming import LAST
from adjoint.training.trainer import Trainer

MODEL = "model.pt"  # what `adjoint predict` reads: the best epoch's
WORSE = 1.02  # times the best loss, from which on a run has learned by heart
NAMED = 5  # folders that a message names


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
    parser.add_argument("--lr", type=rate, default=lr, help=f"how far a step goes ({lr})")
    parser.add_argument("--seed", type=seed, default=0, help="of all that is random (0)")
    parser.add_argument(
        "--folder",
        default=f"runs/{name}",
        help=f"where checkpoint, model and picture go (runs/{name}; with --resume, where they are)",
    )
    parser.add_argument(
        "--compile",
        action=argparse.BooleanOptionalAction,
        default=True,
        help="train with native code (the default: often several times as fast)",
    )
    parser.add_argument(
        "--resume",
        help="the folder of a run to go on with, or its checkpoint; --epochs counts those it has "
        "done, and every option stays as it was unless it is given",
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
    chosen = _resuming.parse(parser, arguments, recipe, ("seed", *settings))
    check_folder(Path(chosen.folder))
    manual_seed(chosen.seed)
    return chosen


def check_folder(folder: Path) -> None:
    """Refuse a folder that nothing can be written into, before the work and not after it."""
    for place in (folder, *folder.parents):
        if place.exists() and not place.is_dir():
            raise NotADirectoryError(f"--folder: {place} is a file; give a folder")
    absent = [place for place in (folder, *folder.parents) if not place.exists()]
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with NamedTemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise ValueError(
            f"--folder: nothing can be written into {folder} ({error.strerror}). Give another."
        ) from None
    finally:
        for place in absent:  # it is made when there is something to put into it
            if place.is_dir():
                place.rmdir()


class RecipeTrainer(Trainer):
    """A trainer that keeps the best model, and whose checkpoints say what they are of.

    Attributes:
        record: recipe, options, meaning and division of the data.
        command: the words that go on with the run.
        settings: how inputs become numbers, for `adjoint predict`; None if there is nothing to ask.
        best: epoch, loss and weights that did best on what is not learned from.
    """

    record: Mapping[str, Any] = MappingProxyType({})
    command: Sequence[str] = ()
    settings: Mapping[str, Any] | None = None
    best: dict[str, Any] | None = None

    def state_dict(self, train: Any = None) -> dict[str, Any]:
        """What continuing needs, and what it must not go on without."""
        return super().state_dict(train) | {"record": dict(self.record), "best": self.best}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue; another network's weights are refused."""
        self.check_state(state)
        self.refuse_another_network(state["model"])
        super().load_state_dict(state)
        self.best = state.get("best")

    def _finish_epoch(self, values: dict[str, float], train: Any) -> None:
        loss = values.get("validation_loss", math.nan)
        better = self.best is None or loss < self.best["loss"]
        if self.settings is not None and math.isfinite(loss) and better:
            weights = {name: x.detach().clone() for name, x in self.model.state_dict().items()}
            self.best = {"epoch": self.epoch + 1, "loss": loss, "weights": weights}
        super()._finish_epoch(values, train)
        if self.best is not None and self.best["epoch"] == self.epoch:
            self.keep()

    def _say_missing(self, message: str) -> None:
        print(message)  # who gave a command has no line to be shown

    def keep(self) -> None:
        """Write the best model, for `adjoint predict`."""
        weights = self.model.state_dict() if self.best is None else self.best["weights"]
        keep(str(self.folder), self.record["recipe"], dict(self.settings or {}), weights)

    def judge_best_again(self, test: Any) -> None:
        """Find the best model's loss anew, since what is tested on may have grown."""
        if self.best is None:
            return
        before, state = {n: x.clone() for n, x in self.model.state_dict().items()}, rng_state()
        self.model.load_state_dict(self.best["weights"])
        self.best["loss"] = self.evaluate(test)["loss"]
        self.model.load_state_dict(before)
        set_rng_state(state)

    def _how_to_resume(self) -> str:
        """The command that goes on, and what can be asked already."""
        folder = str(self.folder)
        if not (Path(folder) / LAST).is_file():
            return "no epoch was finished, so there is no checkpoint yet"
        said = f"`{command(*self.command)}` goes on after epoch {self.epoch}"
        if (Path(folder) / MODEL).is_file():
            said += f"; `adjoint predict {folder}` asks the best model so far"
        return said

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
    *,
    settings: Mapping[str, Any] | None = None,
    sampler: Any = None,
) -> RecipeTrainer:
    """Train with Adam and a cosine schedule; checkpoints and curves go into the folder.

    Args:
        model: it ends with the weights of the best epoch, if it is kept, else of the last.
        loss: of its outputs and the targets.
        train: samples to learn from, all of them in each epoch unless there is a `sampler`.
        test: samples that are never learned from.
        chosen: the options.
        metrics: beside the loss.
        settings: what `adjoint predict` needs beside the weights; without it nothing is kept.
        sampler: which samples an epoch has.
    """
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
    trainer.record, trainer.settings = chosen.record, settings
    trainer.command = [*chosen.command, "--resume", chosen.folder]
    if chosen.before is not None:
        trainer.load_state_dict(chosen.before)
        if "lr" in chosen.given:
            schedule.base_lrs = [chosen.lr for _ in schedule.base_lrs]
            for group in optimizer.param_groups:
                group["initial_lr"] = chosen.lr
        if "lr" in chosen.given or schedule.T_max != chosen.epochs:
            stretch(schedule, chosen.epochs)
    Path(chosen.folder).mkdir(parents=True, exist_ok=True)
    if trainer.epoch < chosen.epochs:
        set_aside(chosen)
        learn(trainer, train, test, chosen, sampler)
    else:
        print(f"{trainer.epoch} epochs are done, and --epochs counts them: nothing to train. "
              f"Give --epochs {2 * trainer.epoch} to go on.")  # fmt: skip
    if settings is not None and not (Path(chosen.folder) / MODEL).is_file():
        trainer.keep()
    if trainer.best is not None:
        model.load_state_dict(trainer.best["weights"])
    return trainer


def learn(
    trainer: RecipeTrainer, train: Any, test: Any, chosen: argparse.Namespace, sampler: Any
) -> None:
    """Go through the data, as often as was asked for."""
    count = len(train) if sampler is None else len(sampler)
    if chosen.batch_size > count and "batch_size" in chosen.given:
        print(f"--batch-size {chosen.batch_size}: there are {count} samples, which are one step")
    tested: DataLoader[Any] = DataLoader(test, batch_size=min(256, len(test)))
    if chosen.before is not None and trainer.best is not None:
        trainer.judge_best_again(tested)
        trainer.keep()
    size = min(chosen.batch_size, count)
    loader: DataLoader[Any] = DataLoader(
        train, batch_size=size, shuffle=sampler is None, sampler=sampler
    )
    steps = f"{len(loader)} steps" if len(loader) > 1 else "1 step"
    print(f"epochs {trainer.epoch + 1} to {chosen.epochs}, each of {steps}", flush=True)
    trainer.fit(loader, tested, epochs=chosen.epochs)


def set_aside(chosen: argparse.Namespace) -> None:
    """Make room for a run: it is not to be taken for an earlier one, nor to write over its model.

    A run that goes on replaces its own; another's goes into a folder within.
    """
    folder = Path(chosen.folder)
    if chosen.resume is not None and Path(chosen.resume).resolve() == (folder / LAST).resolve():
        return
    there = [name for name in (MODEL, LAST) if (folder / name).is_file()]
    if not there:
        return
    number = next(k for k in itertools.count(1) if not (folder / f"earlier-{k}").exists())
    aside = folder / f"earlier-{number}"
    aside.mkdir()
    for name in there:
        (folder / name).rename(aside / name)
    what = "a model" if MODEL in there else "a checkpoint"
    print(f"{folder} had {what} in it, which is in {aside} now")


def stretch(schedule: optim.lr_scheduler.CosineAnnealingLR, epochs: int) -> None:
    """Have a schedule end after another number of epochs; a finished one's rate is 0."""
    schedule.T_max = epochs
    share = (1 + math.cos(math.pi * min(schedule.last_epoch, epochs) / epochs)) / 2
    for group, base in zip(schedule.optimizer.param_groups, schedule.base_lrs, strict=True):
        group["lr"] = base * share


def keep(folder: str, recipe: str, settings: dict[str, Any], weights: Mapping[str, Any]) -> None:
    """Write what `adjoint predict` needs: weights, and how inputs become numbers."""
    content = {"recipe": recipe, "settings": settings, "weights": dict(weights)}
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
        others = sorted(str(other.parent) for other in path.parent.parent.glob(f"*/{MODEL}"))
        there = f"; there is: {', '.join(others[:NAMED])}" if others else ""
        if (path.parent / LAST).is_file():
            there = f"; the training command with --resume {path.parent} goes on to the end"
        raise FileNotFoundError(
            f"there is no {path}; `adjoint train` with csv, images, sentences or gpt writes it"
            f"{there}"
        )
    content = load(path)
    if not isinstance(content, dict) or content.keys() != {"recipe", "settings", "weights"}:
        raise ValueError(f"{path}: not what `adjoint train` writes")
    return content


def not_text(path: str, encoding: str) -> ValueError:
    """The refusal of a file in another encoding, or of one that is no text."""
    name = encoding.removesuffix("-sig")
    with open(path, "rb") as file:
        begins = file.read(4096)
    if begins[:2] in (b"\xff\xfe", b"\xfe\xff"):
        return ValueError(f"{path}: UTF-16, not {name}. Pass --encoding utf-16.")
    if b"\0" in begins:
        return ValueError(f"{path}: no text: it has zero bytes in it. Save it as plain text.")
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


def longer(trainer: Trainer, chosen: argparse.Namespace) -> str:
    """The command that goes on from what a run left, for as long again."""
    return command(*chosen.command, "--epochs", str(2 * trainer.epoch), "--resume", chosen.folder)


def which_epoch(trainer: RecipeTrainer, more: str) -> str:
    """Which epoch's model is kept, if not the last one's, and whether it learned by heart since.

    Args:
        trainer: after a run.
        more: what helps against that.
    """
    best, last = trainer.best, trainer.history[-1]
    if best is None or best["epoch"] == trainer.epoch:
        return ""
    said = f"\n  That is the model after epoch {best['epoch']} of {trainer.epoch}, the best, "
    said += "which is kept."
    worse = last["validation_loss"] > WORSE * best["loss"]
    if worse and last["loss"] < trainer.history[best["epoch"] - 1]["loss"]:
        said += (
            f" Since then it learned by heart: the loss fell to {last['loss']:.3g} on what it "
            f"learns from and rose to {last['validation_loss']:.3g} on what it has not seen. More "
            f"epochs do not help: {more}."
        )
    return said


def still_learns(trainer: Trainer) -> bool:
    """Whether the last quarter of a run brought something, so that more may bring more."""
    losses = [entry["validation_loss"] for entry in trainer.history if "validation_loss" in entry]
    before = losses[: len(losses) * 3 // 4]
    return len(losses) < 4 or min(losses) < 0.98 * min(before)


def guide(page: str, what: str) -> list[str]:
    """A line that names a page of the documentation, where that is there: beside the package."""
    return [f"{page}: {what}"] if (Path(__file__).parents[3] / page).is_file() else []


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
