"""`SummaryWriter`: what happens in training, where TensorBoard finds it."""

from __future__ import annotations

import io
import os
import socket
import time
from typing import Any

import numpy as np

from adjoint.engine.autodiff.tape.modes import no_grad
from adjoint.engine.capture.capture import capture
from adjoint.training import summaries
from adjoint.training.events import EventFile


class SummaryWriter:
    """Writes numbers, histograms, images, texts and graphs where TensorBoard finds them.

    Args:
        log_dir: the folder; `runs/<time>_<host>` by default.
        comment: added to the name of that folder.
        purge_step: accepted as PyTorch has it.
        max_queue: accepted as PyTorch has it; events are written as they come.
        flush_secs: accepted as PyTorch has it.
        filename_suffix: added to the names of files.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder, SummaryWriter(folder) as writer:
        ...     writer.add_scalar("loss", 0.25, 3)
    """

    def __init__(
        self,
        log_dir: str | os.PathLike[str] | None = None,
        comment: str = "",
        purge_step: int | None = None,
        max_queue: int = 10,
        flush_secs: int = 120,
        filename_suffix: str = "",
    ) -> None:
        if log_dir is None:
            log_dir = f"runs/{time.strftime('%b%d_%H-%M-%S')}_{socket.gethostname()}{comment}"
        self.log_dir = os.fspath(log_dir)
        self.filename_suffix = filename_suffix
        self._files = {"": EventFile(log_dir, filename_suffix)}

    def get_logdir(self) -> str:
        """The folder written to."""
        return self.log_dir

    def _add(self, content: bytes, step: Any, walltime: float | None, run: str = "") -> None:
        if run not in self._files:
            self._files[run] = EventFile(os.path.join(self.log_dir, run), self.filename_suffix)
        self._files[run].add(content, step, walltime)

    def add_scalar(
        self,
        tag: str,
        scalar_value: Any,
        global_step: int | None = None,
        walltime: float | None = None,
        new_style: bool = False,
        double_precision: bool = False,
    ) -> None:
        """One number under a name at a step."""
        value = summaries.scalar(tag, scalar_value)
        self._add(summaries.summary(value), global_step, walltime)

    def add_scalars(
        self,
        main_tag: str,
        tag_scalar_dict: dict[str, Any],
        global_step: int | None = None,
        walltime: float | None = None,
    ) -> None:
        """Several numbers in one diagram: each goes to a run of its own, as in PyTorch."""
        for tag, number in tag_scalar_dict.items():
            run = f"{main_tag.replace('/', '_')}_{tag}"
            value = summaries.scalar(main_tag, number)
            self._add(summaries.summary(value), global_step, walltime, run)

    def add_histogram(
        self,
        tag: str,
        values: Any,
        global_step: int | None = None,
        bins: Any = "tensorflow",
        walltime: float | None = None,
        max_bins: int | None = None,
    ) -> None:
        """How values are distributed."""
        value = summaries.histogram(tag, values, bins)
        self._add(summaries.summary(value), global_step, walltime)

    def add_image(
        self,
        tag: str,
        img_tensor: Any,
        global_step: int | None = None,
        walltime: float | None = None,
        dataformats: str = "CHW",
    ) -> None:
        """An image: bytes, or numbers from 0 to 1."""
        value = summaries.picture(tag, summaries.arrange(img_tensor, dataformats))
        self._add(summaries.summary(value), global_step, walltime)

    def add_images(
        self,
        tag: str,
        img_tensor: Any,
        global_step: int | None = None,
        walltime: float | None = None,
        dataformats: str = "NCHW",
    ) -> None:
        """A batch of images, side by side."""
        self.add_image(tag, img_tensor, global_step, walltime, dataformats)

    def add_figure(
        self,
        tag: str,
        figure: Any,
        global_step: int | None = None,
        close: bool = True,
        walltime: float | None = None,
    ) -> None:
        """A Matplotlib figure as an image."""
        for one in figure if isinstance(figure, (list, tuple)) else [figure]:
            buffer = io.BytesIO()
            one.savefig(buffer, format="rgba")
            width, height = (round(float(n) * one.dpi) for n in one.get_size_inches())
            pixels = np.frombuffer(buffer.getvalue(), np.uint8).reshape(height, width, 4)
            value = summaries.picture(tag, pixels)
            self._add(summaries.summary(value), global_step, walltime)
            if close:
                from matplotlib import pyplot

                pyplot.close(one)

    def add_text(
        self,
        tag: str,
        text_string: str,
        global_step: int | None = None,
        walltime: float | None = None,
    ) -> None:
        """A text, shown as Markdown."""
        value = summaries.words(tag, text_string)
        self._add(summaries.summary(value), global_step, walltime)

    def add_graph(
        self,
        model: Any,
        input_to_model: Any = None,
        verbose: bool = False,
        use_strict_trace: bool = True,
    ) -> None:
        """The graph of a model's operations, captured on an example."""
        if input_to_model is None:
            raise ValueError("add_graph: pass an example as input_to_model")
        given = input_to_model if isinstance(input_to_model, (tuple, list)) else [input_to_model]
        captured = capture(model)
        with no_grad():
            captured(*given)
        self._add(summaries.drawing(captured.latest.graph), 0, None)

    def add_hparams(
        self,
        hparam_dict: dict[str, Any],
        metric_dict: dict[str, Any],
        hparam_domain_discrete: Any = None,
        run_name: str | None = None,
        global_step: int | None = None,
    ) -> None:
        """Hyperparameters of a run and what it reached, for comparison with other runs."""
        run = str(time.time()) if run_name is None else run_name
        for content in summaries.hyperparameters(hparam_dict, metric_dict):
            self._add(content, 0, None, run)
        for tag, value in metric_dict.items():
            self._add(summaries.summary(summaries.scalar(tag, value)), global_step, None, run)

    def flush(self) -> None:
        """Bring what was added to disk."""
        for file in self._files.values():
            file.flush()

    def close(self) -> None:
        """End the files."""
        for file in self._files.values():
            file.close()

    def __enter__(self) -> SummaryWriter:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
