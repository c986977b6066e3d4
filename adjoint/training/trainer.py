"""The Trainer: fit, evaluate, predict for the plain case."""

from __future__ import annotations

import math
import os
import time
import warnings
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from inspect import isgenerator
from itertools import islice
from pathlib import Path
from typing import Any

from adjoint.amp import GradScaler, autocast
from adjoint.data import Dataset, IterableDataset
from adjoint.engine.autodiff.tape.modes import no_grad
from adjoint.engine.core import html
from adjoint.engine.core.availability.libraries import MissingLibrary
from adjoint.engine.core.dtype import DType, bfloat16, float16
from adjoint.engine.core.errors import warn_user
from adjoint.engine.core.operations.record import is_tensor
from adjoint.engine.ops.shape.join import cat
from adjoint.io import load, save
from adjoint.io.checkpoint import rng_state, set_rng_state, state_methods
from adjoint.metrics import Metric
from adjoint.training import state as parts
from adjoint.training.bars import progress_bar, tqdm
from adjoint.training.curves import save_plot
from adjoint.training.nan import NonFiniteLoss, name_of_first_nan
from adjoint.training.steps import CompiledSteps, Steps
from adjoint.training.stopping import EarlyStopping
from adjoint.training.writer import SummaryWriter

PRECISIONS: dict[str, DType | None] = {"float32": None, "bfloat16": bfloat16, "float16": float16}


class History(list[dict[str, float]]):
    """One dict per epoch; a notebook shows it as a table."""

    def _repr_html_(self) -> str:
        names = list(dict.fromkeys(name for entry in self for name in entry))
        rows = [[f"{e[n]:.4g}" if n in e else "" for n in names] for e in self]
        return html.table(names, rows)


STATE = frozenset(  # the entries of a checkpoint
    """
    model optimizer scheduler scaler early_stopping random loader metrics epoch step partial history
    stopped
    """.split()
)
REDRAW = 30.0  # seconds between drawings of the curves while training goes on


class Trainer:
    """Trains a model whose batches are `(input, target)` pairs.

    Args:
        model: called with the input of a batch.
        optimizer: an optimizer over the model's parameters.
        loss: called with the model's output and the target; gives the mean over the batch.
        metrics: computed over training batches and over validation data.
        scheduler: stepped once per epoch (with the monitored value if it is ReduceLROnPlateau).
        device: where batches are brought; the model must be there already.
        accumulate: number of batches whose gradients make one step.
        clip_norm, clip_value: bounds on the gradients before each step.
        precision: "float32", "bfloat16" or "float16" (with loss scaling), through autocast.
        compile: compile the batch's forward and backward, the update, and evaluation.
        early_stopping: when to stop before the last epoch.
        folder: where checkpoints, event files (with the extra `tensorboard`) and curves (with
            `plot`) go; nothing is written without one.
        save_every: also save after this many steps, not only after each epoch.
        find_nan: when the loss is not finite, run the batch again to name the operation.
        progress: whether to show progress.

    Example:
        >>> import adjoint as ad
        >>> from adjoint.training import Trainer
        >>> model = ad.nn.Linear(2, 1)
        >>> trainer = Trainer(
        ...     model, ad.optim.SGD(model.parameters(), 0.1), ad.nn.MSELoss(), progress=False
        ... )
        >>> batches = [(ad.ones(4, 2), ad.zeros(4, 1))]
        >>> history = trainer.fit(batches, epochs=20)
        >>> history[-1]["loss"] < history[0]["loss"]
        True
    """

    def __init__(
        self,
        model: Any,
        optimizer: Any,
        loss: Callable[[Any, Any], Any],
        *,
        metrics: Sequence[Metric] = (),
        scheduler: Any = None,
        device: Any = None,
        accumulate: int = 1,
        clip_norm: float | None = None,
        clip_value: float | None = None,
        precision: str = "float32",
        compile: bool = False,
        early_stopping: EarlyStopping | None = None,
        folder: str | os.PathLike[str] | None = None,
        save_every: int | None = None,
        find_nan: bool = False,
        progress: bool = True,
    ) -> None:
        _check_numbers(accumulate, precision, clip_norm=clip_norm, clip_value=clip_value)
        _check_objects(optimizer, loss, metrics)
        require_names(metrics)
        self.model, self.optimizer, self.loss = model, optimizer, loss
        self.metrics, self.scheduler, self.device = list(metrics), scheduler, device
        self.accumulate, self.clip_norm, self.clip_value = accumulate, clip_norm, clip_value
        self.precision, self.early_stopping = precision, early_stopping
        self.folder = None if folder is None else Path(folder)
        self.save_every, self.find_nan, self.progress = save_every, find_nan, progress
        self.scaler = GradScaler(self._kind()) if precision == "float16" else None
        self._steps = (CompiledSteps if compile else Steps)(
            model,
            loss,
            optimizer,
            autocast=_autocasting(self._kind() if precision != "float32" else "", precision),
            scaler=self.scaler,
            accumulate=accumulate,
            clip_norm=clip_norm,
            clip_value=clip_value,
        )
        self.epoch = self.step = 0
        self.history = History()
        self.stopped = False
        # The epoch in progress: summed loss, samples and batches so far.
        self._sum, self._samples, self._batches, self._pending = 0.0, 0, 0, 0
        self._resume_loader: Any = None
        self._goes_on = False  # inside an epoch, from a state that was loaded
        self._skipped = 0  # batches at the beginning that were trained on before
        self._writer: SummaryWriter | None = None
        self._missing: set[str | None] = set()  # libraries that were said to be
        self._drawn = 0.0  # when the curves were

    # -- the three verbs ----------------------------------------------------------------------

    def fit(
        self,
        train: Iterable[Any],
        validation: Iterable[Any] | None = None,
        *,
        epochs: int = 1,
        resume: str | os.PathLike[str] | None = None,
    ) -> History:
        """Train up to `epochs` epochs in all, from a checkpoint if one is given.

        Returns:
            One dict per epoch: loss, metrics, and the same with `validation_` in front.
        """
        require_batches("fit", train)
        require_batches("fit", validation)
        if epochs < 0:
            raise ValueError(f"Trainer.fit: epochs must be 0 or more, got {epochs}")
        if self.save_every and self.folder and not (is_list(train) or state_methods(train)):
            raise TypeError(
                "Trainer.fit: save_every saves inside epochs, and the training data "
                f"({type(train).__name__}) cannot say where it stands. Use a DataLoader or a list "
                "of batches, or leave save_every out."
            )
        if resume is not None:
            self.load(resume)
        if isgenerator(train) and epochs > self.epoch + 1:
            raise TypeError(
                f"Trainer.fit: a generator is used up after one pass, and epochs={epochs} asks for "
                "more. Give a list, a DataLoader, or an object whose __iter__ begins anew."
            )
        if not self._goes_on and resume is None and self.epoch >= epochs:
            warnings.warn(
                f"Trainer.fit: {self.epoch} epochs are done and epochs={epochs} counts them all: "
                f"nothing to do. Pass epochs={self.epoch + epochs} for {epochs} more.",
                stacklevel=2,
            )
        elif self.stopped and self.epoch < epochs:
            warnings.warn(
                f"Trainer.fit: early stopping ended this run after {self.epoch} epochs: nothing to "
                "do. Set trainer.stopped = False to go on all the same.",
                stacklevel=2,
            )
        self._begin(train)
        self._drawn = time.monotonic()  # a short run is drawn once, at its end
        try:
            while self.epoch < epochs and not self.stopped:
                values = self._train_epoch(train, epochs)
                if validation is not None:
                    results = self.evaluate(validation)
                    values |= {f"validation_{name}": value for name, value in results.items()}
                self._finish_epoch(values, train)
        except KeyboardInterrupt as interrupt:
            interrupt.add_note(self._how_to_resume())
            raise
        finally:
            if self._writer is not None:
                self._writer.close()
                self._writer = None
            if self.folder is not None and self.history:
                self._optional(self.draw_curves)
        return self.history

    def _begin(self, train: Any) -> None:
        """Forget what a call that was interrupted left; find the place inside an epoch, if any."""
        self._drop_gradients()
        self._skipped = 0
        if self._goes_on:
            methods = state_methods(train)
            if self._resume_loader is not None and methods is not None:
                methods[1](self._resume_loader)
            elif self._resume_loader is None and is_list(train):
                self._skipped = self._batches
            else:
                raise TypeError(
                    "Trainer.fit: the checkpoint stands inside an epoch, and the training data "
                    f"({type(train).__name__}) cannot continue there. Use what it was trained on: "
                    "a DataLoader, or a list of batches."
                )
        else:
            self._batches = 0
        self._goes_on, self._resume_loader = False, None

    def _how_to_resume(self) -> str:
        """Where the last checkpoint is and what to do with it."""
        place = None if self.folder is None else self.folder / "last.pt"
        if place is None or not place.is_file():
            return "no checkpoint was written yet" + ("" if place else ": pass Trainer a folder")
        return f"fit(..., resume={str(place)!r}) goes on from the last checkpoint"

    def train_step(self, batch: Any) -> dict[str, float]:
        """One update from one batch, for loops of your own; the loss and the metrics so far.

        Example:
            >>> import adjoint as ad
            >>> from adjoint.training import Trainer
            >>> model = ad.nn.Linear(2, 1)
            >>> trainer = Trainer(model, ad.optim.SGD(model.parameters(), 0.1), ad.nn.MSELoss())
            >>> for _ in range(3):
            ...     values = trainer.train_step((ad.ones(4, 2), ad.zeros(4, 1)))
            >>> sorted(values), trainer.step
            (['loss'], 3)
        """
        self.model.train()
        value, _ = self._train_batch(*self._pair(batch))
        if self._pending == self.accumulate:
            self._step()
        return {"loss": value} | _computed(self.metrics)

    def evaluate(self, data: Iterable[Any]) -> dict[str, float]:
        """Loss and metrics over data, in evaluation mode."""
        require_batches("evaluate", data)
        metrics = [metric.fresh() for metric in self.metrics]
        total, samples = 0.0, 0
        with parts.evaluating(self.model), no_grad():
            for batch in data:
                inputs, target = self._pair(batch)
                loss, output = self._steps.loss_of(inputs, target)
                size = parts.size_of(target)
                total += loss.item() * size
                samples += size
                for metric in metrics:
                    metric.update(output, target)
        if not samples:
            raise ValueError("Trainer.evaluate: the data is empty")
        return {"loss": total / samples} | _computed(metrics)

    def predict(self, data: Iterable[Any]) -> Any:
        """The model's outputs over data, joined along the first dimension; targets are ignored.

        Args:
            data: batches, as a loader gives them, or a tensor, which is one batch.

        Example:
            >>> import adjoint as ad
            >>> from adjoint.training import Trainer
            >>> model = ad.nn.Linear(2, 3)
            >>> optimizer = ad.optim.SGD(model.parameters(), 0.1)
            >>> Trainer(model, optimizer, ad.nn.CrossEntropyLoss()).predict(ad.ones(5, 2)).shape
            adjoint.Size([5, 3])
        """
        require_batches("predict", data)
        data = [data] if is_tensor(data) else data
        outputs = []
        with parts.evaluating(self.model), no_grad():
            for batch in data:
                inputs = batch[0] if isinstance(batch, (tuple, list)) else batch
                outputs.append(self._steps.outputs(parts.to_device(inputs, self.device)))
        if not outputs:
            raise ValueError("Trainer.predict: the data is empty")
        return cat(outputs)

    # -- checkpoints --------------------------------------------------------------------------

    def state_dict(self, train: Any = None) -> dict[str, Any]:
        """Everything that continuing needs, of `train` its position."""
        optional = {
            "scheduler": self.scheduler,
            "scaler": self.scaler,
            "early_stopping": self.early_stopping,
        }
        inside, methods = self._batches > 0, state_methods(train)
        return {
            "model": self.model.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            **{k: None if v is None else v.state_dict() for k, v in optional.items()},
            "random": rng_state(),
            "loader": methods[0]() if inside and methods else None,
            "metrics": [parts.metric_state(m) for m in self.metrics] if inside else [],
            "epoch": self.epoch,
            "step": self.step,
            "partial": [self._sum, self._samples, self._batches],
            "history": list(self.history),
            "stopped": self.stopped,
        }

    @staticmethod
    def check_state(state: Any) -> None:
        """Raise if this is not what `state_dict` gave."""
        missing = STATE - set(state) if isinstance(state, dict) else STATE
        if missing:
            raise ValueError(
                f"Trainer: this is no trainer's checkpoint: it lacks {', '.join(sorted(missing))}. "
                "Pass what Trainer.save wrote."
            )

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue from what `state_dict` gave."""
        self.check_state(state)
        optional = {n: getattr(self, n) for n in ("scheduler", "scaler", "early_stopping")}
        for name, part in optional.items():  # all is looked at before anything is changed
            if (part is None) != (state[name] is None):
                here, there = ("no", "a") if part is None else ("a", "no")
                raise ValueError(
                    f"Trainer: the checkpoint has {there} {name} and this trainer {here} one."
                )
        if state["metrics"]:
            parts.require_same_metrics(self.metrics, state["metrics"])
        self.model.load_state_dict(state["model"])
        self.optimizer.load_state_dict(state["optimizer"])
        for name, part in optional.items():
            if part is not None:
                part.load_state_dict(state[name])
        for metric, metric_state in zip(self.metrics, state["metrics"], strict=False):
            parts.set_metric_state(metric, metric_state)
        self._drop_gradients()
        self.epoch, self.step, self.stopped = state["epoch"], state["step"], state["stopped"]
        self._sum, self._samples, self._batches = state["partial"]
        self.history = History(state["history"])
        self._resume_loader, self._goes_on = state["loader"], self._batches > 0
        set_rng_state(state["random"])

    def save(self, path: str | os.PathLike[str], train: Any = None) -> None:
        """Write a checkpoint; an interrupted write leaves the previous file as it was."""
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        save(self.state_dict(train), path)

    def load(self, path: str | os.PathLike[str]) -> None:
        """Read a checkpoint."""
        self.load_state_dict(load(path, map_location=self.device))

    # -- an epoch -----------------------------------------------------------------------------

    def _train_epoch(self, train: Any, epochs: int) -> dict[str, float]:
        self.model.train()
        total = len(train) if hasattr(train, "__len__") else None
        title = f"epoch {self.epoch + 1}/{epochs}"
        start, before = time.perf_counter(), self._samples if self._batches else 0
        bar = progress_bar(self.progress, total, self._batches, title)
        if not self._batches:
            self._sum, self._samples = 0.0, 0
            for metric in self.metrics:
                metric.reset()
        with bar:
            for batch in islice(train, self._skipped, None) if self._skipped else train:
                value, size = self._train_batch(*self._pair(batch))
                self._sum += value * size
                self._samples += size
                self._batches += 1
                spent = max(time.perf_counter() - start, 1e-9)
                speed = tqdm.format_sizeof((self._samples - before) / spent)
                shown = {"loss": f"{self._sum / self._samples:.4g}", "samples/s": speed}
                bar.set_postfix(shown, refresh=False)
                bar.update()
                if self._pending == self.accumulate:
                    self._step()
                    self._log("train/loss", value)
                    if self.folder and self.save_every and self.step % self.save_every == 0:
                        self.save(self.folder / "last.pt", train)
        self._skipped = 0
        if not self._samples:
            used = f" in epoch {self.epoch + 1}: it is used up" if self.epoch else ""
            raise ValueError(f"Trainer.fit: the training data is empty{used}")
        if self._pending:
            self._step()
        values = {"loss": self._sum / self._samples} | _computed(self.metrics)
        self._batches = 0
        if self.progress:
            spent = max(time.perf_counter() - start, 1e-9)
            rate = tqdm.format_sizeof((self._samples - before) / spent)
            self._say(f"{title}  {tqdm.format_interval(spent)}  {rate} samples/s", values)
        return values

    def _train_batch(self, inputs: Any, target: Any) -> tuple[float, int]:
        try:
            loss, output = self._steps.gradients(inputs, target)
            value = float(loss.item())
            if not math.isfinite(value):
                raise self._not_finite(value, inputs, target)
            for metric in self.metrics:
                metric.update(output, target)
        except BaseException:
            self._drop_gradients()  # those of this batch, or of a part of it, are among them
            raise
        self._pending += 1
        return value, parts.size_of(target)

    def _step(self) -> None:
        """One update from the gradients gathered."""
        try:
            # The epoch's last group may be shorter.
            self._steps.update(self.accumulate / self._pending)
        except BaseException:
            self._drop_gradients()
            raise
        self.step += 1
        self._pending = 0

    def _drop_gradients(self) -> None:
        """Let nothing of an unfinished group of batches be part of the next step."""
        self.optimizer.zero_grad()
        self._pending = 0

    def _finish_epoch(self, values: dict[str, float], train: Any) -> None:
        self.epoch += 1
        self.history.append({"epoch": self.epoch, "step": self.step} | values)
        for name, value in values.items():
            self._log(f"epoch/{name}", value)
        shown = {n: v for n, v in values.items() if n.startswith("validation_")}
        if self.progress and shown:
            self._say("", shown)
        if self.scheduler is not None:
            if hasattr(self.scheduler, "num_bad_epochs"):  # the one that watches a value
                self.scheduler.step(values.get("validation_loss", values["loss"]))
            else:
                self.scheduler.step()
        if self.early_stopping is not None:
            self.stopped = self.early_stopping.update(values)
        if self.folder is not None:
            self.save(self.folder / "last.pt", train)
            if time.monotonic() - self._drawn > REDRAW:
                self._optional(self.draw_curves)

    def draw_curves(self) -> None:
        """Write a PNG per quantity, training and validation together, into the folder."""
        if self.folder is None:
            raise ValueError("Trainer.draw_curves: the trainer has no folder")
        self._drawn = time.monotonic()
        for name in ["loss", *(m.name for m in self.metrics)]:
            curves = {
                label: [(e["epoch"], e[key]) for e in self.history if key in e]
                for label, key in (("train", name), ("validation", f"validation_{name}"))
            }
            curves = {label: points for label, points in curves.items() if points}
            if curves:
                best = "validation" if name == "loss" else None
                save_plot(self.folder / f"{name}.png", curves, name, best=best)

    # -- parts --------------------------------------------------------------------------------

    def _pair(self, batch: Any) -> tuple[Any, Any]:
        if not isinstance(batch, (tuple, list)) or len(batch) != 2:
            many = f" of {len(batch)}" if isinstance(batch, (tuple, list, dict)) else ""
            raise TypeError(
                "Trainer: a batch must be an (input, target) pair, got "
                f"{type(batch).__name__}{many}. A collate_fn of the DataLoader can make pairs."
            )
        inputs, target = batch
        if isinstance(target, (int, float)) or (is_tensor(target) and target.ndim == 0):
            raise TypeError(
                "Trainer: the target of a batch is one number, so this is a sample, not a batch. "
                "Pass DataLoader(data, batch_size=32), which joins samples."
            )
        return parts.to_device(inputs, self.device), parts.to_device(target, self.device)

    def _kind(self) -> str:
        """The kind of device the model is on."""
        return str(next(iter(self.model.parameters())).device.type)

    def _not_finite(self, value: float, inputs: Any, target: Any) -> NonFiniteLoss:
        message = (
            f"Trainer: the loss is {value} at step {self.step + 1} (epoch {self.epoch + 1}, batch "
            f"{self._batches + 1}). The parameters are those of step {self.step}."
        )
        if not self.find_nan:
            return NonFiniteLoss(message + " Pass find_nan=True to learn which operation it is.")
        culprit = name_of_first_nan(lambda: self.loss(self.model(inputs), target))
        reason = culprit or "no operation of a second run on the same batch"
        return NonFiniteLoss(f"{message} First made by: {reason}")

    def _say(self, start: str, values: dict[str, float]) -> None:
        print("  ".join([start, *(f"{name} {value:.4g}" for name, value in values.items())]))

    def _optional(self, action: Callable[[], None]) -> None:
        """Do what needs a library of an extra; without it, say so once and go on training."""
        try:
            action()
        except MissingLibrary as error:
            if error.name not in self._missing:
                self._missing.add(error.name)
                self._say_missing(f"{error} Training goes on.")

    def _say_missing(self, message: str) -> None:
        warn_user(f"Trainer: {message}")

    def _log(self, tag: str, value: float) -> None:
        def write() -> None:
            if self._writer is None:
                self._writer = SummaryWriter(self.folder)
            self._writer.add_scalar(tag, value, self.step)

        if self.folder is not None and "tensorboard" not in self._missing:
            self._optional(write)


def _check_numbers(accumulate: int, precision: str, **bounds: float | None) -> None:
    """Refuse numbers and names that a trainer cannot go by."""
    if accumulate < 1:
        raise ValueError(f"Trainer: accumulate must be at least 1, got {accumulate}")
    for name, bound in bounds.items():
        if bound is not None and not bound > 0:  # zero: nothing is learned; less: the contrary
            raise ValueError(f"Trainer: {name} must be more than 0, got {bound}")
    if precision not in PRECISIONS:
        raise ValueError(f"Trainer: precision must be one of {list(PRECISIONS)}, got {precision!r}")


def _check_objects(optimizer: Any, loss: Any, metrics: Sequence[Any]) -> None:
    """Refuse arguments in each other's places, and classes in the place of objects."""
    if not hasattr(optimizer, "step") or not callable(loss):
        swapped = callable(optimizer) and hasattr(loss, "step")
        raise TypeError(
            "Trainer: wants (model, optimizer, loss), received the optimizer "
            f"{type(optimizer).__name__} and the loss {type(loss).__name__}"
            + (": they are swapped." if swapped else ".")
        )
    for metric in metrics:
        if isinstance(metric, type) or not hasattr(metric, "update"):
            name = metric.__name__ if isinstance(metric, type) else str(metric)
            raise TypeError(
                f"Trainer: metrics are objects such as adjoint.metrics.Accuracy(), received "
                f"{'the class ' if isinstance(metric, type) else ''}{name!r}"
            )


def require_batches(verb: str, data: Any) -> None:
    """Raise for a dataset, which gives samples one by one."""
    if isinstance(data, Dataset) and not isinstance(data, IterableDataset):
        raise TypeError(
            f"Trainer.{verb}: wants batches, received {type(data).__name__}, which gives samples. "
            "Pass DataLoader(data, batch_size=32), which joins them."
        )


def is_list(data: Any) -> bool:
    """Whether data is batches that are the same, in the same order, each time."""
    return isinstance(data, (list, tuple))


def require_names(metrics: Sequence[Metric]) -> None:
    """Raise where one value would hide another in the history."""
    taken = {"loss", "epoch", "step"}
    for metric in metrics:
        if metric.name in taken:
            raise ValueError(
                f"Trainer: two values would be called {metric.name!r}. Set the name of a metric, "
                'such as metric.name = "micro_f1", before it is passed.'
            )
        taken.add(metric.name)


def _autocasting(kind: str, precision: str) -> Callable[[], AbstractContextManager[Any]]:
    dtype = PRECISIONS[precision]
    return nullcontext if dtype is None else partial(autocast, kind, dtype=dtype)


def _computed(metrics: Sequence[Metric]) -> dict[str, float]:
    results = {m.name: m.compute() for m in metrics}
    return {name: value for name, value in results.items() if isinstance(value, (int, float))}
