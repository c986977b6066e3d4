import tempfile
from pathlib import Path

import lightning as L
import torch
from common import fill, picture, say
from lightning.pytorch.callbacks import (
    BasePredictionWriter,
    Callback,
    EarlyStopping,
    GradientAccumulationScheduler,
    LambdaCallback,
    ModelCheckpoint,
    ModelSummary,
    StochasticWeightAveraging,
    Timer,
)
from lightning.pytorch.loggers import CSVLogger
from torch.utils.data import DataLoader, TensorDataset
from torchmetrics import MeanSquaredError


class Rows(L.LightningDataModule):
    """Sixteen rows."""

    def setup(self, stage):
        self.rows = TensorDataset(picture(16, 4), picture(16, 1))

    def train_dataloader(self):
        return DataLoader(self.rows, batch_size=4)

    def val_dataloader(self):
        return DataLoader(self.rows, batch_size=8)

    test_dataloader = predict_dataloader = val_dataloader


class Net(L.LightningModule):
    """Two layers with two optimizers, stepped by hand where asked."""

    def __init__(self, by_hand=False, rate=0.05):
        super().__init__()
        self.save_hyperparameters()
        self.automatic_optimization = not by_hand
        self.net = fill(
            torch.nn.Sequential(torch.nn.Linear(4, 6), torch.nn.ReLU(), torch.nn.Linear(6, 1))
        )
        self.error = MeanSquaredError()

    def forward(self, x):
        return self.net(x)

    def training_step(self, batch, index):
        loss = torch.nn.functional.mse_loss(self(batch[0]), batch[1])
        self.log_dict({"loss": loss}, on_epoch=True)
        if not self.automatic_optimization:
            first, second = self.optimizers()
            for each in (first, second):
                each.zero_grad()
            self.manual_backward(loss)
            first.step()
            if index % 2:
                second.step()
            return None
        return loss

    def validation_step(self, batch, index):
        self.error(self(batch[0]), batch[1])
        self.log("val", self.error, on_epoch=True)

    def test_step(self, batch, index):
        self.log("test", torch.nn.functional.l1_loss(self(batch[0]), batch[1]))

    def predict_step(self, batch, index):
        return self(batch[0])

    def configure_optimizers(self):
        rate = self.hparams.rate
        if not self.automatic_optimization:
            return [
                torch.optim.SGD(self.net[0].parameters(), rate),
                torch.optim.Adam(self.net[2].parameters(), rate),
            ]
        optimizer = torch.optim.AdamW(self.parameters(), lr=rate)
        plan = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, patience=0)
        return {"optimizer": optimizer, "lr_scheduler": {"scheduler": plan, "monitor": "val"}}


class Count(Callback):
    """Counts what happens."""

    def __init__(self):
        self.events = [0, 0, 0]

    def on_train_batch_end(self, *args):
        self.events[0] += 1

    def on_after_backward(self, *args):
        self.events[1] += 1

    def on_before_optimizer_step(self, trainer, module, optimizer):
        self.events[2] += 1

    def state_dict(self):
        return {"events": self.events}

    def load_state_dict(self, state):
        self.events = state["events"]


class Keep(BasePredictionWriter):
    """Writes predictions where they are made."""

    def write_on_epoch_end(self, trainer, module, predictions, batches):
        torch.save(predictions, self.where)


L.seed_everything(3, workers=True, verbose=False)
found = []
with tempfile.TemporaryDirectory() as folder:
    shared = {"accelerator": "cpu", "enable_progress_bar": False, "enable_model_summary": False,
              "default_root_dir": folder}  # fmt: skip
    count, keep = Count(), Keep("epoch")
    keep.where = Path(folder) / "predictions.pt"
    saved = ModelCheckpoint(
        folder, monitor="val", save_last=True, save_top_k=2, filename="{epoch}-{val:.3f}"
    )
    net, rows = Net(), Rows()
    trainer = L.Trainer(
        max_epochs=3, logger=[CSVLogger(folder)], log_every_n_steps=1,
        callbacks=[count, keep, saved, EarlyStopping("val", patience=5), Timer(), ModelSummary(2),
                   GradientAccumulationScheduler({1: 2}), LambdaCallback(on_fit_start=lambda *a: None)],
        **shared,
    )  # fmt: skip
    trainer.fit(net, datamodule=rows)
    found += [*count.events, trainer.callback_metrics["val"], trainer.callback_metrics["loss"]]
    found.append(trainer.test(net, datamodule=rows, verbose=False)[0]["test"])
    trainer.predict(net, datamodule=rows, return_predictions=False)
    found += torch.cat(torch.load(keep.where)).flatten().tolist()
    found.append(len(list(Path(folder).glob("*.ckpt"))))
    longer = L.Trainer(max_epochs=5, logger=False, callbacks=[Count()], **shared)
    longer.fit(Net(), datamodule=Rows(), ckpt_path=folder + "/last.ckpt")
    found += [*longer.callbacks[0].events, longer.global_step, longer.callback_metrics["val"]]
    by_hand = Net(by_hand=True)
    L.Trainer(max_epochs=2, logger=False, enable_checkpointing=False, **shared).fit(by_hand, rows)
    found += by_hand(picture(4, 4)).flatten().tolist()
    averaged = Net()
    L.Trainer(
        max_epochs=4, logger=False, enable_checkpointing=False, precision="bf16-mixed",
        callbacks=[StochasticWeightAveraging(0.01, swa_epoch_start=2)], **shared,
    ).fit(averaged, rows)  # fmt: skip
    found.append(round(float(averaged(picture(4, 4)).sum()), 1))
say(*found)
