"""Training checkpoints: all that a run needs to continue as if it had not stopped.

Note [exact resume]
    A checkpoint holds the state of every object given (model, optimizer, scheduler, scaler, data
    loader, ...), of Adjoint's generators on every device, and of Python's and NumPy's. A run that
    loads it and continues computes, on the CPU, bit for bit what the uninterrupted run would have.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Callable, Mapping
from typing import Any

from adjoint.engine.backends.array.host_random import (
    check_host_state,
    host_state,
    set_host_state,
)
from adjoint.engine.backends.array.interop import tensor
from adjoint.engine.core.device import Device
from adjoint.engine.core.dtype import int64
from adjoint.engine.core.errors import FileError
from adjoint.engine.core.operations.record import is_tensor
from adjoint.engine.core.state.rng import default_generator_of, defaults
from adjoint.io.files import load, save

FORMAT = 1
# Methods by which parts of a training say what state they are in, and return to one.
_METHODS = (("state_dict", "load_state_dict"), ("position", "continue_from"))


def state_methods(part: Any) -> tuple[Callable[[], Any], Callable[[Any], Any]] | None:
    """What gives a part's state and what puts it back; None where it has none.

    Example:
        >>> import adjoint as ad
        >>> loader = ad.data.DataLoader(range(6), batch_size=2)
        >>> position, continue_from = state_methods(loader)
        >>> position()["in_epoch"]
        False
    """
    for names in _METHODS:
        give, put_back = (getattr(part, name, None) for name in names)
        if callable(give) and callable(put_back):
            return give, put_back
    return None


def rng_state() -> dict[str, Any]:
    """The state of Adjoint's, Python's and NumPy's generators, as plain values."""
    generators = {str(d): default_generator_of(d) for d in defaults()}
    hosts = {
        name: [tensor(x, dtype=int64) if isinstance(x, list) else x for x in parts]
        for name, parts in host_state().items()
    }
    return {
        "adjoint": {d: [g.initial_seed(), g.get_offset()] for d, g in generators.items()},
        **hosts,
    }


def set_rng_state(state: Mapping[str, Any]) -> None:
    """Return all generators to a state that `rng_state` gave.

    Example:
        >>> import adjoint as ad
        >>> state = rng_state()
        >>> x = ad.rand(3)
        >>> set_rng_state(state)
        >>> bool((ad.rand(3) == x).all())
        True
    """
    try:
        _check_rng_state(state)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise RuntimeError(
            f"set_rng_state: damaged: not what rng_state gives ({type(error).__name__}: {error})"
        ) from error
    for name, (seed, offset) in state["adjoint"].items():
        generator = default_generator_of(Device(name))
        generator.manual_seed(seed)
        generator.set_offset(offset)
    set_host_state(_listed(state))


def _listed(state: Mapping[str, Any]) -> dict[str, list[Any]]:
    """The states of Python's and NumPy's generators, with lists of words in place of tensors."""
    return {
        name: [
            x.tolist() if is_tensor(x) and x.dtype is int64 and x.ndim == 1 else x
            for x in state[name]
        ]
        for name in ("python", "numpy")
    }


def _check_rng_state(state: Mapping[str, Any]) -> None:
    """Refuse a state that the generators would believe: NumPy's reads outside its memory."""
    for name, (seed, offset) in state["adjoint"].items():
        if type(seed) is not int or type(offset) is not int or not isinstance(name, str):
            raise ValueError("a seed or an offset is no whole number")
        Device(name)
    check_host_state(_listed(state))


def save_checkpoint(path: str | os.PathLike[str], **parts: Any) -> None:
    """Write a training checkpoint: the state of each part, and of all random generators.

    Args:
        path: the file, replaced atomically.
        parts: objects with `state_dict()` (model, optimizer, scheduler, scaler, ...), loaders, or
            plain values (epoch, step, ...). None is left out.

    Example:
        >>> import adjoint as ad, os, tempfile
        >>> model = ad.nn.Linear(2, 1)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = os.path.join(folder, "last.pt")
        ...     save_checkpoint(path, model=model, epoch=3)
        ...     load_checkpoint(path, model=model)
        {'epoch': 3}
    """
    states, values = {}, {}
    for name, part in parts.items():
        if part is None:
            continue
        methods = state_methods(part)
        if methods is None:
            values[name] = part
        else:
            states[name] = methods[0]()
    save({"format": FORMAT, "states": states, "values": values, "rng": rng_state()}, path)


def load_checkpoint(
    path: str | os.PathLike[str], *, map_location: Any = "cpu", rng: bool = True, **parts: Any
) -> dict[str, Any]:
    """Return every part, and the random generators, to the state of a checkpoint.

    Args:
        path: a file that `save_checkpoint` wrote.
        map_location: where tensors are loaded; each part then copies them to its own device.
        rng: whether to restore the random generators.
        parts: the objects, under the names they were saved by. None is left out.

    Returns:
        The plain values of the checkpoint.
    """
    content = load(path, map_location)
    parted = isinstance(content, dict) and all(
        isinstance(content.get(part), dict) for part in ("states", "values", "rng")
    )
    if not parted:
        raise FileError(
            f"load_checkpoint: {os.fspath(path)} is not a training checkpoint. Read it with load."
        )
    if content.get("format") != FORMAT:
        raise FileError(
            f"load_checkpoint: {os.fspath(path)} has format {content.get('format')}, this version "
            f"reads {FORMAT}"
        )
    given = {name: part for name, part in parts.items() if part is not None}
    missing = sorted(set(given) - set(content["states"]))
    if missing:
        raise KeyError(
            f"load_checkpoint: {os.fspath(path)} has no {', '.join(missing)}; it has "
            f"{', '.join(sorted(str(name)[:80] for name in content['states']))}"
        )
    for name, part in given.items():
        methods = state_methods(part)
        if methods is None:
            raise TypeError(
                f"load_checkpoint: {name} is a {type(part).__name__}, which has no state to load. "
                f"Pass the object whose state was saved under that name."
            )
        try:
            methods[1](content["states"][name])
        except (AttributeError, TypeError, LookupError, ValueError) as error:
            raise FileError(
                f"load_checkpoint: {os.fspath(path)}: damaged, or of another {name}: "
                f"{type(error).__name__}: {str(error)[:400]}"
            ) from error
    if rng:
        set_rng_state(content["rng"])
    return content["values"]


class CheckpointManager:
    """Numbered checkpoints in a directory, of which the last few and the best are kept.

    Args:
        directory: made if it is not there.
        keep: how many of the latest to keep; None keeps all.
        keep_best: how many of the best by `metric` to keep besides.
        mode: "min" if a smaller metric is better, "max" if a larger one is.
        prefix: what file names begin with.

    Example:
        >>> import adjoint as ad, tempfile
        >>> model = ad.nn.Linear(2, 1)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     manager = CheckpointManager(folder, keep=2)
        ...     for step in (1, 2, 3):
        ...         _ = manager.save(step, model=model)
        ...     manager.steps(), manager.restore(model=model)
        ([2, 3], {'step': 3})
    """

    def __init__(
        self,
        directory: str | os.PathLike[str],
        keep: int | None = 3,
        keep_best: int = 1,
        mode: str = "min",
        prefix: str = "checkpoint",
    ) -> None:
        if keep is not None and keep < 1:
            raise ValueError(f"CheckpointManager: keep must be at least 1, received {keep}")
        if mode not in ("min", "max"):
            raise ValueError(f"CheckpointManager: mode must be 'min' or 'max', received {mode!r}")
        self.directory = os.fspath(directory)
        self.keep = keep
        self.keep_best = keep_best
        self.mode = mode
        self.prefix = prefix
        self.metrics: dict[int, float] = {}
        os.makedirs(self.directory, exist_ok=True)
        for step in reversed(self.steps()):
            with contextlib.suppress(Exception):  # a damaged file is reported when it is asked for
                values = load(self.path(step), "cpu", mmap=True)["values"]
                self.metrics = {int(k): v for k, v in values.get("_metrics", {}).items()}
                break

    def path(self, step: int) -> str:
        """The file of a step."""
        return os.path.join(self.directory, f"{self.prefix}-{step:08d}.pt")

    def steps(self) -> list[int]:
        """The steps there are checkpoints of, oldest first."""
        pattern = re.compile(re.escape(self.prefix) + r"-(\d+)\.pt")
        matches = (pattern.fullmatch(name) for name in os.listdir(self.directory))
        return sorted(int(match[1]) for match in matches if match)

    def latest(self) -> int | None:
        """The newest step, or None."""
        return max(self.steps(), default=None)

    def best(self) -> int | None:
        """The step with the best metric, or None."""
        return next(iter(self._ranked()), None)

    def _ranked(self) -> list[int]:
        sign = 1 if self.mode == "min" else -1
        here = set(self.steps())
        known = [step for step in self.metrics if step in here]
        return sorted(known, key=lambda step: (sign * self.metrics[step], -step))

    def save(self, step: int, metric: float | None = None, **parts: Any) -> str:
        """Write a checkpoint, then remove those that need not be kept; gives its path."""
        if metric is not None:
            self.metrics[step] = float(metric)
        metrics = {"_metrics": dict(self.metrics)} if self.metrics else {}
        save_checkpoint(self.path(step), step=step, **metrics, **parts)
        steps = self.steps()
        wanted = {step, *self._ranked()[: self.keep_best]}
        wanted |= set(steps if self.keep is None else steps[-self.keep :])
        for old in set(steps) - wanted:
            os.unlink(self.path(old))
            self.metrics.pop(old, None)
        return self.path(step)

    def restore(self, step: int | None = None, **parts: Any) -> dict[str, Any]:
        """Load a step, the latest unless given; gives its plain values."""
        if step is None:
            step = self.latest()
        if step is None:
            raise FileNotFoundError(f"restore: no checkpoint in {self.directory!r}")
        values = load_checkpoint(self.path(step), **parts)
        values.pop("_metrics", None)
        return values
