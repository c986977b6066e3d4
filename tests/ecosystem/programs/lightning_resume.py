"""lightning: resumed fits, tuners of rates and batches, averaged weights, two sets, hooks, overfitting, checkpoints of state."""

import tempfile
import warnings
from pathlib import Path

import lightning as L
import torch
from common import fill, picture, say
from lightning.pytorch.callbacks import (
    BackboneFinetuning,
    DeviceStatsMonitor,
    LearningRateMonitor,
    ModelCheckpoint,
    ModelPruning,
    WeightAveraging,
)
from lightning.pytorch.loggers import CSVLogger
from lightning.pytorch.tuner import Tuner
from lightning.pytorch.utilities import CombinedLoader, grad_norm
from torch.utils.data import DataLoader, TensorDataset
from torchmetrics import MetricCollection
from torchmetrics.classification import MulticlassAccuracy, MulticlassF1Score

warnings.simplefilter("ignore")
rows = TensorDataset(picture(24, 6), torch.arange(24) % 3)


class Net(L.LightningModule):
    """A backbone and a head, with scores."""

    def __init__(self, lr=0.02):
        super().__init__()
        self.save_hyperparameters()
        self.lr = lr
        self.backbone = fill(
            torch.nn.Sequential(torch.nn.Linear(6, 8), torch.nn.BatchNorm1d(8), torch.nn.ReLU())
        )
        self.head = fill(torch.nn.Linear(8, 3))
        self.scores = MetricCollection([MulticlassAccuracy(3), MulticlassF1Score(3)])
        self.norms = []

    def forward(self, x):
        return self.head(self.backbone(x))

    def training_step(self, batch, index):
        if isinstance(batch, dict):
            batch = batch["a"]
        loss = torch.nn.functional.cross_entropy(self(batch[0]), batch[1])
        self.log("loss", loss, prog_bar=True, on_step=True, on_epoch=True)
        return loss

    def on_before_optimizer_step(self, optimizer):
        self.norms.append(float(grad_norm(self, 2)["grad_2.0_norm_total"]))

    def validation_step(self, batch, index, dataloader_idx=0):
        out = self(batch[0])
        self.log_dict(self.scores(out, batch[1]))
        self.log("val", torch.nn.functional.cross_entropy(out, batch[1]))

    def configure_optimizers(self):
        optimizer = torch.optim.SGD(
            filter(lambda p: p.requires_grad, self.parameters()), lr=self.lr, momentum=0.9
        )
        return [optimizer], [
            {
                "scheduler": torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.97),
                "interval": "step",
            }
        ]


def loader():
    """Batches in order."""
    return DataLoader(rows, batch_size=6)


found = []
with tempfile.TemporaryDirectory() as folder:
    shared = {
        "accelerator": "cpu",
        "enable_progress_bar": False,
        "enable_model_summary": False,
        "default_root_dir": folder,
        "log_every_n_steps": 1,
    }
    kept = ModelCheckpoint(folder, save_top_k=-1, every_n_train_steps=2, filename="{step}")
    first = Net()
    trainer = L.Trainer(
        max_epochs=2,
        logger=CSVLogger(folder),
        callbacks=[kept, LearningRateMonitor("step"), DeviceStatsMonitor()],
        gradient_clip_val=0.5,
        **shared,
    )
    trainer.fit(first, loader(), loader())
    found += [
        *first.norms,
        *(
            trainer.callback_metrics[k]
            for k in ("val", "MulticlassAccuracy", "MulticlassF1Score", "loss_epoch")
        ),
    ]
    middle = Net()
    L.Trainer(max_epochs=2, logger=False, gradient_clip_val=0.5, **shared).fit(
        middle, loader(), loader(), ckpt_path=folder + "/step=4.ckpt"
    )
    found.append(
        sum(
            (a - b).abs().sum()
            for a, b in zip(first.parameters(), middle.parameters(), strict=True)
        )
        < 1e-4
    )
    found.append(Net.load_from_checkpoint(folder + "/step=2.ckpt", lr=0.5).hparams.lr)
    stored = torch.load(folder + "/step=6.ckpt", weights_only=False)
    found += [stored["epoch"], stored["global_step"], len(stored["optimizer_states"][0]["state"])]
    slow = Net()
    tuning = L.Trainer(max_epochs=3, logger=False, enable_checkpointing=False, **shared)
    tuner = Tuner(tuning)
    finder = tuner.lr_find(slow, loader(), min_lr=1e-4, max_lr=1.0, num_training=12)
    found += [len(finder.results["loss"]), finder.results["lr"][-1], finder.results["loss"][3]]
    partly = Net()
    L.Trainer(
        max_epochs=3,
        logger=False,
        enable_checkpointing=False,
        callbacks=[BackboneFinetuning(unfreeze_backbone_at_epoch=1)],
        **shared,
    ).fit(partly, loader())
    found += [partly.head.weight.sum(), partly.backbone[0].weight.sum()]
    both = Net()
    pairs = CombinedLoader({"a": loader(), "b": DataLoader(rows, batch_size=4)}, "max_size_cycle")
    L.Trainer(
        max_steps=5, logger=False, enable_checkpointing=False, accumulate_grad_batches=2, **shared
    ).fit(both, pairs)
    found += [len(both.norms), both.head.bias.sum()]
    few = Net()
    L.Trainer(
        max_epochs=2,
        logger=False,
        enable_checkpointing=False,
        overfit_batches=1,
        precision="64-true",
        **shared,
    ).fit(few, loader())
    found += [few.head.weight.sum(), few.head.weight.dtype == torch.float64]
    told = L.Trainer(logger=False, enable_checkpointing=False, **shared).validate(
        first, [loader(), loader()], verbose=False
    )
    found += [value for each in told for value in each.values()]
    quick = Net()
    L.Trainer(
        fast_dev_run=2,
        logger=False,
        **{k: v for k, v in shared.items() if k != "log_every_n_steps"},
    ).fit(quick, loader(), loader())
    found.append(quick.head.weight.sum())
say(*found)
