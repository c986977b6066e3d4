import tempfile

import lightning as L
import torch
from common import fill, picture, say
from lightning.pytorch.callbacks import EarlyStopping, LearningRateMonitor, ModelCheckpoint
from lightning.pytorch.loggers import CSVLogger
from torch.utils.data import DataLoader, TensorDataset


class Net(L.LightningModule):
    """A line, fitted."""

    def __init__(self, width=4):
        super().__init__()
        self.save_hyperparameters()
        self.layer = fill(torch.nn.Linear(width, 1))

    def training_step(self, batch, index):
        loss = torch.nn.functional.mse_loss(self.layer(batch[0]), batch[1])
        self.log("loss", loss, prog_bar=True)
        self.last = loss.detach()
        return loss

    def validation_step(self, batch, index):
        self.log("val", torch.nn.functional.mse_loss(self.layer(batch[0]), batch[1]))

    def configure_optimizers(self):
        optimizer = torch.optim.Adam(self.parameters(), lr=0.05)
        return [optimizer], [torch.optim.lr_scheduler.StepLR(optimizer, 1, 0.5)]


rows = TensorDataset(picture(16, 4), picture(16, 1))
with tempfile.TemporaryDirectory() as folder:
    best = ModelCheckpoint(dirpath=folder, monitor="val")
    trainer = L.Trainer(
        max_epochs=3,
        accelerator="cpu",
        logger=CSVLogger(folder),
        callbacks=[best, EarlyStopping("val"), LearningRateMonitor()],
        enable_progress_bar=False,
        enable_model_summary=True,
        gradient_clip_val=0.5,
        accumulate_grad_batches=2,
        log_every_n_steps=1,
    )
    net = Net()
    trainer.fit(net, DataLoader(rows, batch_size=4), DataLoader(rows, batch_size=8))
    last = net.last
    again = Net.load_from_checkpoint(best.best_model_path)
    told = trainer.validate(again, DataLoader(rows, batch_size=8), verbose=False)
say(told[0]["val"], net.layer.weight.sum(), again.layer.bias.sum(), last)
