"""What `SummaryWriter` writes for TensorBoard's plugins: curves, meshes, sounds, videos, points."""

from __future__ import annotations

from typing import Any

from adjoint.training import plugin_summaries, projector, summaries


class PluginMethods:
    """The methods of `SummaryWriter` whose values a plugin of TensorBoard's shows.

    Example:
        >>> import tempfile
        >>> from adjoint.training import SummaryWriter
        >>> with tempfile.TemporaryDirectory() as folder, SummaryWriter(folder) as writer:
        ...     writer.add_pr_curve("found", [1, 0, 1], [0.9, 0.2, 0.6], 3)
        ...     writer.add_audio("tone", [0.0, 0.5, 0.0, -0.5], sample_rate=8000)
        ...     writer.add_custom_scalars({"losses": {"both": ["Multiline", ["train", "test"]]}})
    """

    log_dir: str

    def _add(self, summary: Any, step: Any, walltime: float | None, run: str = "") -> None:
        raise NotImplementedError  # SummaryWriter's

    def _event(self, run: str, step: Any, walltime: float | None, **content: Any) -> None:
        raise NotImplementedError  # SummaryWriter's

    def add_tensor(
        self,
        tag: str,
        tensor: Any,
        global_step: int | None = None,
        walltime: float | None = None,
    ) -> None:
        """A tensor with its dtype and shape, for programs that read event files."""
        self._add(plugin_summaries.tensor(tag, tensor), global_step, walltime)

    def add_histogram_raw(
        self,
        tag: str,
        min: float,
        max: float,
        num: int,
        sum: float,
        sum_squares: float,
        bucket_limits: Any,
        bucket_counts: Any,
        global_step: int | None = None,
        walltime: float | None = None,
    ) -> None:
        """A histogram that was counted elsewhere.

        Args:
            tag: its name.
            min, max: the least and the largest value.
            num: how many values there are.
            sum, sum_squares: the sum of values, and of their squares.
            bucket_limits: the right edge of each bucket.
            bucket_counts: how many values are in it.
            global_step: the step.
            walltime: when, in seconds since 1970; now unless given.
        """
        value = plugin_summaries.histogram(
            tag, min, max, num, sum, sum_squares, bucket_limits, bucket_counts
        )
        self._add(value, global_step, walltime)

    def add_image_with_boxes(
        self,
        tag: str,
        img_tensor: Any,
        box_tensor: Any,
        global_step: int | None = None,
        walltime: float | None = None,
        rescale: float = 1,
        dataformats: str = "CHW",
        labels: list[str] | None = None,
    ) -> None:
        """An image with boxes drawn on it in red (needs Pillow).

        Args:
            tag: its name.
            img_tensor: the image, of bytes or numbers from 0 to 1.
            box_tensor: the boxes (N, 4), each (x1, y1, x2, y2) in pixels.
            global_step: the step.
            walltime: when, in seconds since 1970; now unless given.
            rescale: how many times larger it is shown.
            dataformats: the order of the image's dimensions.
            labels: what is written in each box.
        """
        pixels = summaries.arrange(img_tensor, dataformats)
        names = [labels] if isinstance(labels, str) else labels
        value = plugin_summaries.boxed(tag, pixels, box_tensor, names, rescale)
        self._add(value, global_step, walltime)

    def add_video(
        self,
        tag: str,
        vid_tensor: Any,
        global_step: int | None = None,
        fps: float = 4,
        walltime: float | None = None,
    ) -> None:
        """Videos side by side as one animated GIF (needs Pillow).

        Args:
            tag: its name.
            vid_tensor: (N, T, C, H, W), of bytes or numbers from 0 to 1, with 1 or 3 channels.
            global_step: the step.
            fps: frames a second; a GIF keeps hundredths of a second for each.
            walltime: when, in seconds since 1970; now unless given.
        """
        self._add(plugin_summaries.video(tag, vid_tensor, fps), global_step, walltime)

    def add_audio(
        self,
        tag: str,
        snd_tensor: Any,
        global_step: int | None = None,
        sample_rate: int = 44100,
        walltime: float | None = None,
    ) -> None:
        """A sound of one channel, kept with 16 bits.

        Args:
            tag: its name.
            snd_tensor: (L) or (1, L), numbers from -1 to 1.
            global_step: the step.
            sample_rate: how many numbers are a second.
            walltime: when, in seconds since 1970; now unless given.
        """
        self._add(plugin_summaries.sound(tag, snd_tensor, sample_rate), global_step, walltime)

    def add_pr_curve(
        self,
        tag: str,
        labels: Any,
        predictions: Any,
        global_step: int | None = None,
        num_thresholds: int = 127,
        weights: Any = None,
        walltime: float | None = None,
    ) -> None:
        """Precision against recall of a classifier with two classes.

        Args:
            tag: its name.
            labels: 1 or True where the class is present.
            predictions: how probable it is, from 0 to 1.
            global_step: the step.
            num_thresholds: how many thresholds from 0 to 1 are tried (PyTorch tries 127 at most).
            weights: how much each sample counts; 1 unless given.
            walltime: when, in seconds since 1970; now unless given.
        """
        rows = plugin_summaries.precision_recall(labels, predictions, num_thresholds, weights)
        self._add(plugin_summaries.curve(tag, rows), global_step, walltime)

    def add_pr_curve_raw(
        self,
        tag: str,
        true_positive_counts: Any,
        false_positive_counts: Any,
        true_negative_counts: Any,
        false_negative_counts: Any,
        precision: Any,
        recall: Any,
        global_step: int | None = None,
        num_thresholds: int = 127,
        weights: Any = None,
        walltime: float | None = None,
    ) -> None:
        """Precision against recall, both found elsewhere: a number for each threshold.

        Args:
            tag: its name.
            true_positive_counts, false_positive_counts: what was called positive.
            true_negative_counts, false_negative_counts: what was called negative.
            precision, recall: the shares that follow.
            global_step: the step.
            num_thresholds: not needed: there are as many thresholds as numbers in each row.
            weights: not needed: the counts have them in them.
            walltime: when, in seconds since 1970; now unless given.
        """
        rows = [
            true_positive_counts,
            false_positive_counts,
            true_negative_counts,
            false_negative_counts,
            precision,
            recall,
        ]
        self._add(plugin_summaries.curve(tag, rows), global_step, walltime)

    def add_mesh(
        self,
        tag: str,
        vertices: Any,
        colors: Any = None,
        faces: Any = None,
        config_dict: dict[str, Any] | None = None,
        global_step: int | None = None,
        walltime: float | None = None,
    ) -> None:
        """Points in space, or triangles between them, that can be turned with the mouse.

        Args:
            tag: its name.
            vertices: the points (B, N, 3).
            colors: their colours (B, N, 3), from 0 to 255.
            faces: triangles (B, M, 3), each the numbers of three points.
            config_dict: classes of three.js and their settings (camera, lights, material).
            global_step: the step.
            walltime: when, in seconds since 1970; now unless given.
        """
        value = plugin_summaries.mesh(tag, vertices, colors, faces, config_dict)
        self._add(value, global_step, walltime)

    def add_embedding(
        self,
        mat: Any,
        metadata: Any = None,
        label_img: Any = None,
        global_step: int | None = None,
        tag: str = "default",
        metadata_header: Any = None,
    ) -> None:
        """Points in many dimensions, for TensorBoard's projector.

        They are files of their own beside the event files.

        Args:
            mat: the points (N, D).
            metadata: a label for each; a list of them where `metadata_header` names columns.
            label_img: a picture for each (N, C, H, W), of bytes or numbers from 0 to 1.
            global_step: the step.
            tag: the name of the set.
            metadata_header: names of the columns of labels.
        """
        step = int(global_step or 0)
        projector.write(self.log_dir, mat, metadata, label_img, step, tag, metadata_header)

    def add_custom_scalars(self, layout: dict[str, dict[str, Any]]) -> None:
        """Which numbers are shown in one diagram; a later layout takes the place of an earlier.

        Args:
            layout: categories, in each charts by their titles, each ["Multiline", tags] or
                ["Margin", [tag of the value, of what is below it, of what is above it]].
        """
        self._add(plugin_summaries.layout(layout), None, None)

    def add_custom_scalars_multilinechart(
        self, tags: Any, category: str = "default", title: str = "untitled"
    ) -> None:
        """One diagram with the numbers of several tags."""
        self.add_custom_scalars({category: {title: ["Multiline", tags]}})

    def add_custom_scalars_marginchart(
        self, tags: Any, category: str = "default", title: str = "untitled"
    ) -> None:
        """One diagram of a number between two others: tags of it, of the lower, of the upper."""
        self.add_custom_scalars({category: {title: ["Margin", tags]}})

    def add_onnx_graph(self, prototxt: Any) -> None:
        """The graph of a file of ONNX (needs onnx), without the bodies of branches and loops.

        Args:
            prototxt: the path of the file.
        """
        graph = plugin_summaries.onnx_drawing(prototxt)
        self._event("", 0, None, graph_def=graph.SerializeToString())
