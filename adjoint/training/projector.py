"""The files TensorBoard's projector reads: points in many dimensions, their labels and pictures."""

from __future__ import annotations

import math
import os
import warnings
from pathlib import Path
from typing import Any

import numpy as np

from adjoint.data.readers import png
from adjoint.engine.core.availability.libraries import find, need
from adjoint.training import summaries

CONFIGURATION = "projector_config.pbtxt"


def folder_name(tag: str) -> str:
    r"""A tag as the name of one folder.

    >>> folder_name("layer/1 100%")
    'layer%2f1 100%25'
    """
    for character in "%/\\":
        tag = tag.replace(character, f"%{ord(character):02x}")
    return tag


def _table(metadata: Any, header: Any) -> str:
    """Labels of points, a row each; of several columns, the first row is their names."""
    rows = [list(row) for row in metadata] if header else [[label] for label in metadata]
    if header:
        if any(len(row) != len(header) for row in rows):
            raise ValueError(
                f"add_embedding: each row of metadata must have {len(header)} columns, as "
                "metadata_header has"
            )
        rows = [list(header), *rows] if len(header) > 1 else rows
    texts = [[str(cell) for cell in row] for row in rows]
    if any(mark in cell for row in texts for cell in row for mark in "\t\n\r"):
        raise ValueError(
            "add_embedding: labels cannot hold tabs or ends of lines; pass several columns as "
            "lists, with metadata_header"
        )
    return "".join("\t".join(row) + "\n" for row in texts)


def _sprite(images: Any) -> Any:
    """Pictures (N, C, H, W) in one, as many rows of places as columns."""
    count, _, height, _ = images.shape
    columns = math.ceil(math.sqrt(count))
    filled = summaries.arrange(images, "NCHW", columns)
    sprite = np.zeros((columns * height, *filled.shape[1:]), np.uint8)
    sprite[: len(filled)] = filled
    return sprite[:, :, 0] if sprite.shape[2] == 1 else sprite


def write(
    root: str, matrix: Any, metadata: Any, label_img: Any, step: int, tag: str, header: Any
) -> None:
    """Write the files of one set of points, and name them in the projector's configuration."""
    points = summaries.to_array(matrix)
    if points.ndim != 2:
        raise ValueError(f"add_embedding: expected points (N, D), got {points.shape}")
    table = images = None
    if metadata is not None:
        if len(metadata) != len(points):
            raise ValueError(f"add_embedding: {len(metadata)} labels for {len(points)} points")
        table = _table(metadata, header)
    if label_img is not None:
        images = summaries.to_array(label_img)
        if images.ndim != 4 or images.shape[1] not in (1, 3) or len(images) != len(points):
            raise ValueError(
                f"add_embedding: label_img must be ({len(points)}, 1 or 3, H, W), got "
                f"{images.shape}"
            )
    place = f"{step:05d}/{folder_name(tag)}"
    folder = Path(root) / place
    if folder.is_dir():
        warnings.warn(
            f"add_embedding: {tag!r} of step {step} was written before and is replaced; pass "
            "another global_step to keep both",
            stacklevel=3,
        )
    folder.mkdir(parents=True, exist_ok=True)
    lines = ("\t".join(map(str, row)) + "\n" for row in points.tolist())
    (folder / "tensors.tsv").write_text("".join(lines), encoding="utf-8")
    protos = need("tensorboard.plugins.projector.projector_config_pb2", "add_embedding")
    about = protos.EmbeddingInfo(
        tensor_name=f"{tag}:{step:05d}", tensor_path=f"{place}/tensors.tsv"
    )
    if table is not None:
        (folder / "metadata.tsv").write_text(table, encoding="utf-8")
        about.metadata_path = f"{place}/metadata.tsv"
    if images is not None:
        (folder / "sprite.png").write_bytes(png.encode(_sprite(images)))
        about.sprite.image_path = f"{place}/sprite.png"
        about.sprite.single_image_dim.extend([images.shape[3], images.shape[2]])
    _name(Path(root) / CONFIGURATION, protos, about)


def _name(path: Path, protos: Any, about: Any) -> None:
    """Add a set of points to the configuration, or put it in the place of that of its name."""
    form = find("google.protobuf.text_format")  # comes with tensorboard
    known = protos.ProjectorConfig()
    if path.exists():
        form.Parse(path.read_text(encoding="utf-8"), known)
    others = [one for one in known.embeddings if one.tensor_name != about.tensor_name]
    del known.embeddings[:]
    known.embeddings.extend([*others, about])
    # Whole or not at all: TensorBoard may read it meanwhile.
    fresh = path.with_name(f"{path.name}.new")
    fresh.write_text(form.MessageToString(known), encoding="utf-8")
    os.replace(fresh, path)
