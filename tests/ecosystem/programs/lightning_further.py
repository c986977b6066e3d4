"""lightning: frozen backbones, several loaders, searches of rates, pruning, profilers, averaged weights, processes."""

import tempfile
from pathlib import Path

import lightning as L
import torch
from common import fill, parts, picture
from lightning.pytorch.callbacks import (
    BackboneFinetuning,
    ModelPruning,
    RichModelSummary,
    ThroughputMonitor,
    WeightAveraging,
)
from lightning.pytorch.loggers import CSVLogger, TensorBoardLogger
from lightning.pytorch.profilers import AdvancedProfiler, SimpleProfiler
from lightning.pytorch.tuner import Tuner
from lightning.pytorch.utilities import CombinedLoader
from torch.utils.data import DataLoader, TensorDataset

rows = TensorDataset(picture(16, 4), picture(16, 1))
F = torch.nn.functional


class Net(L.LightningModule):
    """A backbone and a head."""

    def __init__(self, lr=0.05, batch_size=4):
        super().__init__()
        self.save_hyperparameters()
        self.backbone = fill(
            torch.nn.Sequential(torch.nn.Linear(4, 6), torch.nn.BatchNorm1d(6), torch.nn.Tanh())
        )
        self.head = fill(torch.nn.Linear(6, 1))
        self.losses = []

    def forward(self, x):
        return self.head(self.backbone(x))

    def training_step(self, batch, index):
        loss = F.mse_loss(self(batch[0]), batch[1])
        self.losses.append(float(loss.detach()))
        self.log("loss", loss)
        return loss

    def validation_step(self, batch, index, dataloader_idx=0):
        self.log("val", F.mse_loss(self(batch[0]), batch[1]))

    def train_dataloader(self):
        return DataLoader(rows, batch_size=self.hparams.batch_size)

    def configure_optimizers(self):
        return torch.optim.SGD(
            [p for p in self.parameters() if p.requires_grad], lr=self.hparams.lr
        )


def trainer(folder, **given):
    """A quiet one."""
    settings = {"accelerator": "cpu", "logger": False, "enable_checkpointing": False, "enable_progress_bar": False,
                "enable_model_summary": False, "default_root_dir": folder, "max_epochs": 2}  # fmt: skip
    return L.Trainer(**{**settings, **given})


def frozen():
    """A backbone that waits for its turn."""
    with tempfile.TemporaryDirectory() as folder:
        net = Net()
        trainer(
            folder,
            max_epochs=3,
            callbacks=[BackboneFinetuning(unfreeze_backbone_at_epoch=1, backbone_initial_lr=0.01)],
        ).fit(net)
        return [net.losses, net.backbone[0].weight]


class Both(Net):
    """Two loaders at once."""

    def train_dataloader(self):
        pair = {"a": DataLoader(rows, batch_size=4), "b": DataLoader(rows, batch_size=8)}
        return CombinedLoader(pair, "max_size_cycle")

    def training_step(self, batch, index):
        loss = sum(F.mse_loss(self(batch[k][0]), batch[k][1]) for k in ("a", "b"))
        self.losses.append(float(loss.detach()))
        return loss

    def val_dataloader(self):
        return [DataLoader(rows, batch_size=8), DataLoader(rows, batch_size=5)]


def several():
    """Loaders side by side, and one after the other."""
    with tempfile.TemporaryDirectory() as folder:
        net = Both()
        fit = trainer(folder)
        fit.fit(net)
        found = [
            len(batch)
            for batch, _, _ in CombinedLoader(
                [DataLoader(rows, 4), DataLoader(rows, 8)], "sequential"
            )
        ]
        return [net.losses, found, [float(v) for v in fit.callback_metrics.values()]]


def searched():
    """A rate and a size of batches, searched for."""
    with tempfile.TemporaryDirectory() as folder:
        net = Net(lr=1e-3)
        net.val_dataloader = lambda: DataLoader(rows, batch_size=8)
        told = Tuner(trainer(folder)).lr_find(net, num_training=20, min_lr=1e-4, max_lr=1.0)
        size = Tuner(trainer(folder)).scale_batch_size(
            net, max_trials=2, init_val=2, steps_per_trial=1
        )
        return [told.results["lr"], told.results["loss"], size]


def pruned():
    """Weights that are left out."""
    with tempfile.TemporaryDirectory() as folder:
        net = Net()
        prune = ModelPruning(
            "l1_unstructured", parameters_to_prune=[(net.head, "weight")], amount=0.5
        )
        trainer(folder, callbacks=[prune]).fit(net)
        return [net.losses, (net.head.weight == 0).sum()]


def averaged():
    """Averages of weights."""
    with tempfile.TemporaryDirectory() as folder:
        net = Net()
        average = WeightAveraging(avg_fn=lambda a, b, n: 0.8 * a + 0.2 * b)
        trainer(folder, callbacks=[average]).fit(net)
        return [net.losses, net.head.weight]


def measured():
    """Profilers, summaries, loggers: what they write."""
    found = []
    with tempfile.TemporaryDirectory() as folder:
        for profiler in (
            SimpleProfiler(folder, "simple"),
            AdvancedProfiler(folder, "advanced"),
            "pytorch",
        ):
            net = Net()
            trainer(folder, max_steps=2, profiler=profiler, callbacks=[RichModelSummary(2)]).fit(
                net
            )
            found.append(net.losses)
        loggers = [CSVLogger(folder, name="lines"), TensorBoardLogger(folder, name="board")]
        net = Net()
        fit = trainer(folder, logger=loggers, log_every_n_steps=1)
        fit.fit(net)
        lines = Path(loggers[0].log_dir, "metrics.csv").read_text().splitlines()
        found += [len(lines), len(list(Path(loggers[1].log_dir).glob("events*")))]
    return found


def limits():
    """Parts of epochs, quick runs, checks in between, hooks of gradients."""
    found = []
    with tempfile.TemporaryDirectory() as folder:
        for options in (
            {"limit_train_batches": 2}, {"overfit_batches": 1}, {"fast_dev_run": True}, {"max_steps": 3, "max_epochs": -1},
            {"val_check_interval": 2}, {"gradient_clip_val": 0.1, "gradient_clip_algorithm": "value"}, {"precision": "64-true"},
            {"accumulate_grad_batches": 3}, {"detect_anomaly": True, "max_steps": 1}, {"deterministic": True, "max_steps": 2},
        ):  # fmt: skip
            net = Net()
            if options.get("precision"):
                loader = DataLoader(
                    TensorDataset(picture(16, 4).double(), picture(16, 1).double()), batch_size=4
                )
            else:
                loader = DataLoader(rows, batch_size=4)
            fit = trainer(folder, **options)
            fit.fit(
                net,
                loader,
                DataLoader(rows if not options.get("precision") else loader.dataset, batch_size=8),
            )
            found += [
                net.losses,
                fit.global_step,
                float(fit.callback_metrics.get("val", torch.zeros(()))),
            ]
    return found


def kept():
    """A checkpoint written by hand, and loaded with another setting."""
    with tempfile.TemporaryDirectory() as folder:
        net = Net()
        trainer(folder, max_epochs=1).fit(net)
        path = folder + "/kept.ckpt"
        fit = trainer(folder, max_epochs=1)
        other = Net()
        fit.fit(other)
        fit.save_checkpoint(path)
        again = Net.load_from_checkpoint(path, lr=0.5)
        state = torch.load(path, weights_only=False)
        return [
            net.losses,
            again.hparams.lr,
            again.head.weight,
            len(state["state_dict"]),
            state["global_step"],
        ]


parts(frozen, several, searched, pruned, averaged, measured, limits, kept)
