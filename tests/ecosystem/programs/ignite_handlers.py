"""ignite: handlers, schedules, checkpoints, averaged weights, metrics."""

import tempfile

import torch
from common import fill, picture, say
from ignite.engine import Events, create_supervised_evaluator, create_supervised_trainer
from ignite.handlers import (
    Checkpoint,
    DiskSaver,
    EarlyStopping,
    EMAHandler,
    TerminateOnNan,
    create_lr_scheduler_with_warmup,
)
from ignite.metrics import (
    Accuracy,
    ConfusionMatrix,
    Fbeta,
    IoU,
    Loss,
    Precision,
    Recall,
    RunningAverage,
    TopKCategoricalAccuracy,
)
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

rows = TensorDataset(picture(20, 5), torch.arange(20) % 3)
found = []


def fit(rate, folder):
    """Losses and scores of a fit."""
    net = fill(nn.Sequential(nn.Linear(5, 8), nn.Tanh(), nn.Linear(8, 3)))
    optimizer = torch.optim.Adam(net.parameters(), lr=rate)
    trainer = create_supervised_trainer(net, optimizer, nn.CrossEntropyLoss())
    matrix = ConfusionMatrix(3)
    scores = {"accuracy": Accuracy(), "loss": Loss(nn.CrossEntropyLoss()), "precision": Precision(average=True), "recall": Recall(average="macro"),
              "fbeta": Fbeta(1.0), "top": TopKCategoricalAccuracy(2), "iou": IoU(matrix)}  # fmt: skip
    judge = create_supervised_evaluator(net, scores)
    RunningAverage(output_transform=lambda loss: loss).attach(trainer, "mean")
    plan = create_lr_scheduler_with_warmup(
        torch.optim.lr_scheduler.StepLR(optimizer, 2, 0.5),
        warmup_start_value=rate / 10,
        warmup_duration=2,
    )
    trainer.add_event_handler(Events.ITERATION_STARTED, plan)
    trainer.add_event_handler(Events.ITERATION_COMPLETED, TerminateOnNan())
    mean = EMAHandler(net, momentum=0.1)
    mean.attach(trainer)
    keeper = Checkpoint(
        {"net": net, "steps": optimizer},
        DiskSaver(folder, require_empty=False),
        n_saved=1,
        score_name="accuracy",
        score_function=lambda engine: engine.state.metrics["accuracy"],
    )
    judge.add_event_handler(Events.COMPLETED, keeper)
    judge.add_event_handler(
        Events.COMPLETED, EarlyStopping(5, lambda engine: -engine.state.metrics["loss"], trainer)
    )
    losses = []

    @trainer.on(Events.EPOCH_COMPLETED)
    def told(engine):
        judge.run(DataLoader(rows, batch_size=6))
        losses.append(judge.state.metrics["loss"])

    trainer.run(DataLoader(rows, batch_size=5), max_epochs=3)
    Checkpoint.load_objects({"net": net}, torch.load(keeper.last_checkpoint))
    numbers = [
        *losses,
        trainer.state.metrics["mean"],
        *(
            float(judge.state.metrics[k])
            for k in ("accuracy", "precision", "recall", "fbeta", "top")
        ),
    ]
    return numbers + [
        judge.state.metrics["iou"].sum().item(),
        mean.ema_model[0].weight.sum().item(),
        net[0].weight.sum().item(),
    ]


with tempfile.TemporaryDirectory() as folder:
    for rate in (0.02, 0.1):
        found += fit(rate, folder)
say(*found)
