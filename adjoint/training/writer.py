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
from adjoint.engine.core.availability.libraries import need
from adjoint.training import summaries
from adjoint.training.writer_plugins import PluginMethods


class SummaryWriter(PluginMethods):
    """Writes numbers, histograms, images, texts and graphs where TensorBoard finds them.

    What TensorBoard's plugins show (curves, meshes, sounds, videos, points) is in `PluginMethods`.

    The files are written by TensorBoard's own writer (`pip install adjoint[tensorboard]`).

    Args:
        log_dir: the folder; `runs/<time>_<host>` by default.
        comment: added to the name of that folder.
        purge_step: the step a run that is continued starts at; later ones of before are not shown.
        max_queue: how many events wait in memory before they are written.
        flush_secs: how many seconds they wait at most.
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
        self.purge_step = purge_step
        self.max_queue, self.flush_secs = max_queue, flush_secs
        self.filename_suffix = filename_suffix
        self._files: dict[str, Any] = {}
        self._file("")

    def get_logdir(self) -> str:
        """The folder written to."""
        return self.log_dir

    def _file(self, run: str) -> Any:
        """The file of a run, the folder's own or one below it."""
        if run not in self._files:
            library = need("tensorboard.summary.writer.event_file_writer", "SummaryWriter")
            folder = os.path.join(self.log_dir, run) if run else self.log_dir
            self._files[run] = library.EventFileWriter(
                folder, self.max_queue, self.flush_secs, self.filename_suffix
            )
            if self.purge_step is not None:
                log = summaries.messages().event.SessionLog
                self._event(run, self.purge_step, None, session_log=log(status=log.START))
        return self._files[run]

    def _event(self, run: str, step: Any, walltime: float | None, **content: Any) -> None:
        moment = time.time() if walltime is None else walltime
        event = summaries.messages().event.Event(wall_time=moment, step=int(step or 0), **content)
        self._file(run).add_event(event)

    def _add(self, summary: Any, step: Any, walltime: float | None, run: str = "") -> None:
        self._event(run, step, walltime, summary=summary)

    def add_scalar(
        self,
        tag: str,
        scalar_value: Any,
        global_step: int | None = None,
        walltime: float | None = None,
        new_style: bool = False,
        double_precision: bool = False,
    ) -> None:
        """One number under a name at a step.

        Args:
            tag: its name.
            scalar_value: the number.
            global_step: the step.
            walltime: when, in seconds since 1970; now unless given.
            new_style: write it as a tensor, as newer programs do.
            double_precision: keep 64 bits of it, which the new style can.
        """
        if double_precision and not new_style:
            raise ValueError("add_scalar: double_precision=True needs new_style=True")
        value = summaries.scalar(tag, scalar_value, as_tensor=new_style, double=double_precision)
        self._add(value, global_step, walltime)

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
            self._add(summaries.scalar(main_tag, number), global_step, walltime, run)

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
        self._add(value, global_step, walltime)

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
        self._add(value, global_step, walltime)

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
            self._add(value, global_step, walltime)
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
        self._add(value, global_step, walltime)

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
        graph = summaries.drawing(captured.latest.graph)
        self._event("", 0, None, graph_def=graph.SerializeToString())

    def add_hparams(
        self,
        hparam_dict: dict[str, Any],
        metric_dict: dict[str, Any],
        hparam_domain_discrete: Any = None,
        run_name: str | None = None,
        global_step: int | None = None,
    ) -> None:
        """Hyperparameters of a run and what it reached, for comparison with other runs.

        Args:
            hparam_dict: the hyperparameters.
            metric_dict: what was reached.
            hparam_domain_discrete: the values a hyperparameter may have, by its name.
            run_name: the run's folder; the time unless given.
            global_step: the step it was reached at.
        """
        run = str(time.time()) if run_name is None else run_name
        choices = hparam_domain_discrete or {}
        for content in summaries.hyperparameters(hparam_dict, metric_dict, choices):
            self._add(content, 0, None, run)
        for tag, value in metric_dict.items():
            self._add(summaries.scalar(tag, value), global_step, None, run)

    def _get_file_writer(self) -> FileWriter:
        """What takes summaries that a library made itself (lightning's logger)."""
        return FileWriter(self)

    def flush(self) -> None:
        """Bring what was added to disk."""
        for file in self._files.values():
            file.flush()

    def close(self) -> None:
        """End the files; what is added later begins others."""
        for file in self._files.values():
            file.close()
        self._files.clear()

    def __enter__(self) -> SummaryWriter:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class FileWriter:
    """Takes summaries as they are written, into a writer's own run.

    Args:
        writer: whose run it is.
    """

    def __init__(self, writer: SummaryWriter) -> None:
        self.writer = writer
        self.flush, self.close, self.get_logdir = writer.flush, writer.close, writer.get_logdir

    def add_summary(
        self, summary: Any, global_step: Any = None, walltime: float | None = None
    ) -> None:
        """Add a summary, of a step and a time."""
        self.writer._add(summary, global_step, walltime)
