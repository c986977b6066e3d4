"""mmengine: a runner with hooks, schedules, checkpoints, validation, resuming."""

import tempfile

import torch
from common import fill, picture, say
from mmengine.evaluator import BaseMetric
from mmengine.model import BaseModel, ExponentialMovingAverage, constant_init, revert_sync_batchnorm
from mmengine.optim import AmpOptimWrapper, OptimWrapper
from mmengine.registry import MODELS
from mmengine.runner import Runner
from mmengine.structures import BaseDataElement, InstanceData
from torch.utils.data import DataLoader, TensorDataset


class Net(BaseModel):
    """Two layers that answer in three ways."""

    def __init__(self):
        super().__init__()
        self.net = fill(
            torch.nn.Sequential(
                torch.nn.Linear(4, 8),
                torch.nn.BatchNorm1d(8),
                torch.nn.ReLU(),
                torch.nn.Linear(8, 3),
            )
        )

    def forward(self, x, y, mode):
        out = self.net(x)
        if mode == "loss":
            return {"loss": torch.nn.functional.cross_entropy(out, y)}
        return (out, y) if mode == "predict" else out


class Right(BaseMetric):
    """Share of right answers, and their mean score."""

    def process(self, batch, samples):
        scores, aims = samples
        self.results.append(
            {
                "right": (scores.argmax(1) == aims).sum().item(),
                "size": len(aims),
                "score": scores.double().sum().item(),
            }
        )

    def compute_metrics(self, results):
        size = sum(each["size"] for each in results)
        return {
            "right": sum(each["right"] for each in results) / size,
            "score": sum(each["score"] for each in results),
        }


rows = TensorDataset(picture(16, 4), torch.arange(16) % 3)
loader = {
    "batch_size": 4,
    "num_workers": 0,
    "dataset": rows,
    "sampler": {"type": "DefaultSampler", "shuffle": False},
}
found = []
with tempfile.TemporaryDirectory() as folder:

    def runner(epochs, resume=False):
        """A runner of some epochs."""
        return Runner(
            model=Net(), work_dir=folder, train_dataloader=loader, val_dataloader=loader, test_dataloader=loader, resume=resume,
            train_cfg={"by_epoch": True, "max_epochs": epochs, "val_interval": 1}, val_cfg={}, test_cfg={},
            optim_wrapper={"optimizer": {"type": "AdamW", "lr": 0.02, "weight_decay": 0.05}, "clip_grad": {"max_norm": 1.0}, "accumulative_counts": 2,
                           "paramwise_cfg": {"norm_decay_mult": 0.0}},
            param_scheduler=[{"type": "LinearLR", "start_factor": 0.1, "by_epoch": False, "end": 3}, {"type": "CosineAnnealingLR", "T_max": 4, "by_epoch": True}],
            val_evaluator=Right(), test_evaluator=Right(), log_level="ERROR", randomness={"seed": 1},
            default_hooks={"checkpoint": {"type": "CheckpointHook", "interval": 1, "save_best": "right", "rule": "greater"}},
            custom_hooks=[{"type": "EMAHook", "momentum": 0.1}], experiment_name=f"e{epochs}",
        )  # fmt: skip

    first = runner(2)
    net = first.train()
    found += [net(picture(3, 4), None, "tensor").square().sum(), first.iter]
    second = runner(3, resume=True)
    second.train()
    told = second.test()
    found += [told["right"], told["score"], second.epoch, second.optim_wrapper.get_lr()["lr"][0]]
    shared = second.message_hub.get_scalar("train/loss")
    found.append(shared.current())
item = InstanceData(boxes=picture(4, 4), labels=torch.arange(4))
found += [
    len(item[item.labels > 1]),
    InstanceData.cat([item, item]).boxes.sum(),
    item[torch.tensor([True, False, True, False])].labels.sum(),
]
element = BaseDataElement(metainfo={"shape": (3, 4)}, x=picture(3))
found += [element.to_dict()["x"].sum(), *element.metainfo["shape"]]
mean = ExponentialMovingAverage(torch.nn.Linear(2, 2), momentum=0.5)
constant_init(mean.module, 1.0)
mean.update_parameters(fill(torch.nn.Linear(2, 2)))
found.append(mean.module.weight.sum())
wrapper = OptimWrapper(torch.optim.SGD(net.parameters(), lr=0.1))
with wrapper.optim_context(net):
    loss = net(picture(4, 4), torch.arange(4) % 3, "loss")["loss"]
wrapper.update_params(loss)
found.append(net(picture(4, 4), torch.arange(4) % 3, "loss")["loss"])
say(*found)
