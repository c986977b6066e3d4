"""Readers of what others publish: folders of models, images in memory, sets of annotated images."""

from __future__ import annotations

import io
import json
import shutil
from collections.abc import Callable
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

import adjoint as ad
from adjoint import models
from adjoint.io import safetensors
from adjoint.vision import datasets
from adjoint.vision.io import decode_image
from tests.hostile.parts import Reader, by_file, whole

# -- folders of models ----------------------------------------------------------------------------

SMALL: dict[str, tuple[Any, Any, dict[str, Any]]] = {
    "bert": (models.Bert, models.BertConfig, {
        "vocab_size": 20, "hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2,
        "intermediate_size": 16, "max_position_embeddings": 16, "type_vocab_size": 2,
        "hidden_dropout_prob": 0.1, "layer_norm_eps": 1e-12, "hidden_act": "gelu",
    }),
    "gpt2": (models.GPT2, models.GPT2Config, {
        "vocab_size": 20, "n_positions": 16, "n_embd": 8, "n_layer": 1, "n_head": 2,
        "n_inner": None, "resid_pdrop": 0.1, "layer_norm_epsilon": 1e-5,
    }),
    "llama": (models.Llama, models.LlamaConfig, {
        "vocab_size": 20, "hidden_size": 8, "intermediate_size": 16, "num_hidden_layers": 1,
        "num_attention_heads": 2, "num_key_value_heads": 1, "max_position_embeddings": 65536,
        "rope_theta": 10000.0, "rms_norm_eps": 1e-6, "tie_word_embeddings": True,
        "rope_scaling": {"rope_type": "llama3", "factor": 8.0, "high_freq_factor": 4.0},
    }),
}  # fmt: skip
DESCRIBED = (
    "BertConfig: ", "GPT2Config: ", "LlamaConfig: ", "RopeScaling: ", "DiffusionUNet: ", "Bert: hidden_act",
    "Dropout: dropout probability", "GroupNorm: num_channels",
)  # fmt: skip
DIFFUSION = {
    "in_channels": 1, "block_out_channels": [32, 32], "layers_per_block": 1, "act_fn": "silu",
    "down_block_types": ["DownBlock2D", "AttnDownBlock2D"],
}  # fmt: skip


@cache
def weights_of(kind: str) -> bytes:
    if kind == "diffusion":
        model: Any = models.DiffusionUNet(1, 32, (1, 1), 1, (1,))
    else:
        make, config, about = SMALL[kind]
        model = make(config.from_dict(about))
    state = {name: value.detach().clone() for name, value in model.state_dict().items()}
    return by_file(lambda path: safetensors.save_file(state, path))()


def read_model(kind: str) -> Callable[[Path], Any]:
    """A model whose configuration is the file in question."""
    make = models.DiffusionUNet if kind == "diffusion" else SMALL[kind][0]

    def read(path: Path) -> Any:
        folder = path.parent / kind
        folder.mkdir(exist_ok=True)
        (folder / "model.safetensors").write_bytes(weights_of(kind))
        shutil.copy(path, folder / "config.json")
        try:
            return make.from_pretrained(folder)
        except ValueError as error:  # a sound file that describes no such model
            if not str(error).startswith(DESCRIBED):
                raise
            raise RuntimeError(f"{path}: {error}") from error

    return read


# -- images and sets of them ----------------------------------------------------------------------


@cache
def image(form: str) -> bytes:
    from PIL import Image

    out = io.BytesIO()
    Image.fromarray(np.arange(24 * 20 * 3, dtype=np.uint8).reshape(24, 20, 3)).save(out, form)
    return out.getvalue()


def read_in_memory(path: Path) -> Any:
    data = np.frombuffer(path.read_bytes(), np.uint8).copy()
    return [decode_image(ad.from_numpy(data), mode) for mode in ("UNCHANGED", "RGB", "GRAY")]


VOC = "VOCdevkit/VOC2012"
ANNOTATION = b"""<?xml version="1.0"?>
<annotation><folder>VOC2012</folder><filename>a.jpg</filename><size><width>20</width></size>
<object><name>cat</name><bndbox><xmin>1</xmin><ymin>2</ymin></bndbox></object>
<object><name>dog</name><part><name>head</name></part></object></annotation>
"""


def voc(root: Path, kind: str, name: str, target: Path) -> Path:
    """The folder of a set whose one annotation is the file in question."""
    base = root / "voc" / VOC
    for part, data in (
        (f"ImageSets/{kind}/train.txt", b"a\n"), ("JPEGImages/a.jpg", image("JPEG")),
        (name, target.read_bytes()),
    ):  # fmt: skip
        (base / part).parent.mkdir(parents=True, exist_ok=True)
        (base / part).write_bytes(data)
    return root / "voc"


def read_detection(path: Path) -> Any:
    return datasets.VOCDetection(voc(path.parent, "Main", "Annotations/a.xml", path))[0]


def read_segmentation(path: Path) -> Any:
    root = voc(path.parent, "Segmentation", "SegmentationClass/a.png", path)
    return np.asarray(datasets.VOCSegmentation(root)[0][1])


def read_coco(path: Path) -> Any:
    return datasets.CocoDetection(path.parent, path)


COCO = {
    "images": [{"id": 1, "file_name": "a.jpg"}, {"id": 2, "file_name": "b.jpg"}],
    "annotations": [
        {"image_id": 1, "bbox": [1.5, 2, 3, 4], "segmentation": [[1.5, 2.25]], "id": 7}
    ],
    "categories": [{"id": 1, "name": "cat"}],
}


@cache
def house_numbers() -> bytes:
    from scipy.io import savemat

    out = io.BytesIO()
    pixels = np.zeros((32, 32, 3, 4), np.uint8)
    savemat(out, {"X": pixels, "y": np.arange(4)[:, None]}, do_compression=True)
    return out.getvalue()


def read_house_numbers(path: Path) -> Any:
    return datasets.SVHN(path.parent)


PUBLISHED_READERS: dict[str, Reader] = {
    **{
        f"{kind} config": Reader(
            f"{kind}.json", lambda about=about: json.dumps(about).encode(), read_model(kind), whole, named=False  # type: ignore[misc]
        )
        for kind, about in [*((kind, about) for kind, (_, _, about) in SMALL.items()), ("diffusion", DIFFUSION)]
    },
    "voc": Reader("a.xml", lambda: ANNOTATION, read_detection, whole),
    "coco": Reader("a.json", lambda: json.dumps(COCO).encode(), read_coco, whole),
}  # fmt: skip
if find_spec("PIL") is not None:
    PUBLISHED_READERS |= {
        "memory png": Reader("a.bin", lambda: image("PNG"), read_in_memory, named=False),
        "memory jpeg": Reader("a.bin", lambda: image("JPEG"), read_in_memory, named=False),
        "memory gif": Reader("a.bin", lambda: image("GIF"), read_in_memory, named=False),
        "voc masks": Reader("a.png", lambda: image("PNG"), read_segmentation),
    }
if find_spec("scipy") is not None:
    PUBLISHED_READERS["svhn"] = Reader("train_32x32.mat", house_numbers, read_house_numbers)
