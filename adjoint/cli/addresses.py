"""Paths where PyTorch keeps names that Adjoint has elsewhere; programs import them there."""

from __future__ import annotations

import importlib
import sys
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

# Path within the package: where its names are.
TABLE: dict[str, str] = {
    "_C._distributed_c10d": "distributed",
    "_dynamo.backends": "_dynamo",
    "_dynamo.backends.registry": "_dynamo",
    "_functorch.apis": "func",
    "_functorch.eager_transforms": "func",
    "_functorch.functional_call": "func",
    "_functorch.make_functional": "_functorch.package",
    "accelerator.memory": "accelerator",
    "ao.nn.intrinsic.modules": "ao.nn.intrinsic",
    "ao.nn.intrinsic.modules.fused": "ao.nn.intrinsic",
    "ao.nn.intrinsic.qat.modules": "ao.nn.intrinsic.qat",
    "ao.nn.intrinsic.qat.modules.conv_fused": "ao.nn.intrinsic.qat",
    "ao.nn.intrinsic.qat.modules.linear_relu": "ao.nn.intrinsic.qat",
    "ao.nn.qat.modules": "ao.nn.qat",
    "ao.nn.qat.modules.conv": "ao.nn.qat",
    "ao.nn.qat.modules.linear": "ao.nn.qat",
    "ao.nn.quantized.dynamic.modules": "ao.nn.quantized.dynamic",
    "ao.nn.quantized.dynamic.modules.linear": "ao.nn.quantized.dynamic",
    "ao.nn.quantized.dynamic.modules.rnn": "ao.nn.quantized.dynamic",
    "ao.nn.quantized.modules": "ao.nn.quantized",
    "ao.nn.quantized.modules.conv": "ao.nn.quantized",
    "ao.nn.quantized.modules.embedding_ops": "ao.nn.quantized",
    "ao.nn.quantized.modules.functional_modules": "ao.nn.quantized",
    "ao.nn.quantized.modules.linear": "ao.nn.quantized",
    "ao.pruning.scheduler": "ao.pruning",
    "ao.pruning.scheduler.base_scheduler": "ao.pruning",
    "ao.pruning.scheduler.cubic_scheduler": "ao.pruning",
    "ao.pruning.scheduler.lambda_scheduler": "ao.pruning",
    "ao.pruning.sparsifier": "ao.pruning",
    "ao.pruning.sparsifier.base_sparsifier": "ao.pruning",
    "ao.pruning.sparsifier.nearly_diagonal_sparsifier": "ao.pruning",
    "ao.pruning.sparsifier.utils": "ao.pruning",
    "ao.pruning.sparsifier.weight_norm_sparsifier": "ao.pruning",
    "autograd.profiler_util": "autograd.profiler",
    "cpu.amp.autocast_mode": "cpu.amp",
    "cpu.amp.grad_scaler": "cpu.amp",
    "cuda.streams": "cuda",
    "distributed._composable.replicate": "distributed._composable",
    "distributed._tensor.api": "distributed.tensor",
    "distributed._tensor.device_mesh": "distributed.device_mesh",
    "distributed._tensor.placement_types": "distributed.tensor.placement_types",
    "distributed.c10d_logger": "distributed.communication.objects",
    "distributed.checkpoint.filesystem": "distributed.checkpoint",
    "distributed.checkpoint.state_dict_loader": "distributed.checkpoint",
    "distributed.checkpoint.state_dict_saver": "distributed.checkpoint",
    "distributed.checkpoint.storage": "distributed.checkpoint",
    "distributed.distributed_c10d": "distributed",
    "distributed.elastic.utils.data.cycling_iterator": "distributed.elastic.utils.data",
    "distributed.elastic.utils.data.elastic_distributed_sampler": "distributed.elastic.utils.data",
    "distributed.fsdp._fully_shard": "distributed.fsdp",
    "distributed.optim.zero_redundancy_optimizer": "distributed.optim",
    "distributed.tensor._api": "distributed.tensor",
    "distributed.tensor.device_mesh": "distributed.device_mesh",
    "distributed.tensor.parallel.loss": "distributed.tensor.parallel",
    "distributed.tensor.parallel.style": "distributed.tensor.parallel",
    "export.dynamic_shapes": "export.graphs.dynamic_shapes",
    "export.unflatten": "export",
    "jit._script": "jit",
    "jit._trace": "jit",
    "masked.maskedtensor": "masked",
    "masked.maskedtensor.core": "masked",
    "masked.maskedtensor.creation": "masked",
    "multiprocessing.pool": "multiprocessing",
    "multiprocessing.queue": "multiprocessing",
    "nn.intrinsic": "ao.nn.intrinsic",
    "nn.intrinsic.modules": "ao.nn.intrinsic",
    "nn.intrinsic.modules.fused": "ao.nn.intrinsic",
    "nn.intrinsic.qat": "ao.nn.intrinsic.qat",
    "nn.intrinsic.qat.modules": "ao.nn.intrinsic.qat",
    "nn.intrinsic.qat.modules.conv_fused": "ao.nn.intrinsic.qat",
    "nn.intrinsic.qat.modules.linear_relu": "ao.nn.intrinsic.qat",
    "nn.qat": "ao.nn.qat",
    "nn.qat.modules": "ao.nn.qat",
    "nn.qat.modules.conv": "ao.nn.qat",
    "nn.qat.modules.linear": "ao.nn.qat",
    "nn.quantized": "ao.nn.quantized",
    "nn.quantized.dynamic": "ao.nn.quantized.dynamic",
    "nn.quantized.dynamic.modules": "ao.nn.quantized.dynamic",
    "nn.quantized.dynamic.modules.linear": "ao.nn.quantized.dynamic",
    "nn.quantized.dynamic.modules.rnn": "ao.nn.quantized.dynamic",
    "nn.quantized.modules": "ao.nn.quantized",
    "nn.quantized.modules.conv": "ao.nn.quantized",
    "nn.quantized.modules.embedding_ops": "ao.nn.quantized",
    "nn.quantized.modules.functional_modules": "ao.nn.quantized",
    "nn.quantized.modules.linear": "ao.nn.quantized",
    "onnx.utils": "onnx",
    "optim._adafactor": "optim.adafactor",
    "optim._muon": "optim.muon",
    "quantization.fuse_modules": "ao.quantization.fuse_modules",
    "quantization.quantize_fx": "ao.quantization.quantize_fx",
    "signal.windows.windows": "signal.windows",
    "testing._comparison": "testing",
    "utils._cxx_pytree": "utils._pytree",
    "utils.benchmark.utils": "utils.benchmark",
    "utils.benchmark.utils.common": "utils.benchmark",
    "utils.benchmark.utils.compare": "utils.benchmark",
    "utils.benchmark.utils.timer": "utils.benchmark",
    "vision._internally_replaced_utils": "hub",
    "vision.datasets.cifar": "vision.datasets",
    "vision.datasets.coco": "vision.datasets",
    "vision.datasets.fakedata": "vision.datasets",
    "vision.datasets.mnist": "vision.datasets",
    "vision.datasets.stl10": "vision.datasets",
    "vision.datasets.svhn": "vision.datasets",
    "vision.datasets.vision": "vision.datasets",
    "vision.datasets.voc": "vision.datasets",
    "vision.io.image": "vision.io",
    "vision.models._api": "vision.models",
    "vision.models.mobilenet": "vision.models",
    "vision.models.utils": "hub",
    "vision.ops.ciou_loss": "vision.ops",
    "vision.ops.deform_conv": "vision.ops",
    "vision.ops.diou_loss": "vision.ops",
    "vision.ops.drop_block": "vision.ops",
    "vision.ops.focal_loss": "vision.ops",
    "vision.ops.giou_loss": "vision.ops",
    "vision.ops.poolers": "vision.ops",
    "vision.ops.ps_roi_align": "vision.ops",
    "vision.ops.ps_roi_pool": "vision.ops",
    "vision.ops.roi_align": "vision.ops",
    "vision.ops.roi_pool": "vision.ops",
    "vision.transforms._functional_pil": "vision.transforms.functional",
    "vision.transforms._functional_tensor": "vision.transforms.functional",
    "vision.transforms._presets": "vision.transforms.presets",
    "vision.transforms.autoaugment": "vision.transforms",
    "vision.transforms.transforms": "vision.transforms",
}


class Elsewhere(ModuleType):
    """A module whose names are those of another, looked up when they are read."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") and name != "__all__":
            raise AttributeError(name)
        member = getattr(importlib.import_module(self.__dict__["_home"]), name)
        self.__dict__[name] = member
        return member

    def __dir__(self) -> list[str]:
        return dir(importlib.import_module(self.__dict__["_home"]))


def has_below(path: str) -> bool:
    """Whether PyTorch keeps names at paths below a path."""
    return any(entry.startswith(f"{path}.") for entry in TABLE)


def module(name: str) -> ModuleType | None:
    """The module at a path of the table, entered among the loaded ones; None if it has none."""
    path = name.removeprefix("adjoint.")
    home = TABLE.get(path)
    if home is None:
        return None
    stand_in = Elsewhere(name, f"The names of adjoint.{home}, at another path.")
    below = has_below(path)
    stand_in.__spec__ = ModuleSpec(name, None, is_package=below)
    if below:
        stand_in.__path__ = []  # so that what lies below it is looked for
    stand_in.__dict__["_home"] = f"adjoint.{home}"
    sys.modules[name] = stand_in
    parent, _, last = name.rpartition(".")
    package = sys.modules.get(parent)
    if package is not None and isinstance(vars(package).get(last, package), ModuleType):
        setattr(package, last, stand_in)  # a function of that name keeps it
    return stand_in
