"""Trainer's further ways: callbacks, scores, checkpoints of activations, bfloat16, optimizers, plans."""

import tempfile

import numpy as np
import torch
from common import fill, parts
from small_transformers import QUIET, WORDS
from torch.utils.data import IterableDataset, SequentialSampler
from transformers import (
    BertConfig,
    BertForSequenceClassification,
    EarlyStoppingCallback,
    Trainer,
    TrainerCallback,
    TrainingArguments,
)

data = [
    {"input_ids": (torch.arange(8) + 2 * i) % 40, "labels": torch.tensor(i % 2)} for i in range(12)
]


class InOrder(Trainer):
    """Rows as they come."""

    def _get_train_sampler(self, *args, **kwargs):
        return SequentialSampler(self.train_dataset)


def model():
    """A small classifier."""
    return fill(BertForSequenceClassification(BertConfig(**WORDS, **QUIET)))


def arguments(folder, **given):
    """Few steps, quietly."""
    settings = {
        "max_steps": 4, "per_device_train_batch_size": 3, "learning_rate": 1e-2, "report_to": [],
        "use_cpu": True, "disable_tqdm": True, "logging_steps": 1, "save_strategy": "no", "seed": 1,
    }  # fmt: skip
    return TrainingArguments(folder, **{**settings, **given})


def logged(trainer):
    """Losses and norms as they were logged."""
    return [
        line[key]
        for line in trainer.state.log_history
        for key in ("loss", "grad_norm")
        if key in line
    ]


class Counts(TrainerCallback):
    """Counts what happens, and stops after three steps."""

    def __init__(self):
        self.seen = {}

    def on_event(self, name):
        self.seen[name] = self.seen.get(name, 0) + 1

    def on_step_begin(self, *args, **kwargs):
        self.on_event("begin")

    def on_substep_end(self, *args, **kwargs):
        self.on_event("sub")

    def on_pre_optimizer_step(self, *args, **kwargs):
        self.on_event("before")

    def on_step_end(self, args, state, control, **kwargs):
        self.on_event("end")
        control.should_training_stop = state.global_step >= 3
        return control

    def on_log(self, *args, **kwargs):
        self.on_event("log")


def callbacks():
    """Events, and a stop."""
    with tempfile.TemporaryDirectory() as folder:
        counts = Counts()
        settings = arguments(folder, gradient_accumulation_steps=2, max_steps=6)
        trainer = InOrder(model(), settings, train_dataset=data, callbacks=[counts])
        trainer.train()
        return [logged(trainer), counts.seen, trainer.state.global_step]


def scores(predicted):
    """How many are right."""
    return {"right": float(np.mean(predicted.predictions.argmax(-1) == predicted.label_ids))}


def judged():
    """Scores after epochs, the best kept, and loaded at the end."""
    with tempfile.TemporaryDirectory() as folder:
        settings = arguments(
            folder, max_steps=-1, num_train_epochs=3, eval_strategy="epoch", save_strategy="epoch",
            load_best_model_at_end=True, metric_for_best_model="eval_loss", save_total_limit=2,
        )  # fmt: skip
        trainer = InOrder(
            model(), settings, train_dataset=data, eval_dataset=data[:5], compute_metrics=scores,
            callbacks=[EarlyStoppingCallback(2)],
        )  # fmt: skip
        trainer.train()
        told = trainer.evaluate()
        return [logged(trainer), told["eval_loss"], told["eval_right"], trainer.state.best_metric]


def saved_memory():
    """Activations made again, with and without reentrance."""
    found = []
    for reentrant in (False, True):
        with tempfile.TemporaryDirectory() as folder:
            settings = arguments(
                folder,
                gradient_checkpointing=True,
                gradient_checkpointing_kwargs={"use_reentrant": reentrant},
            )
            trainer = InOrder(model(), settings, train_dataset=data)
            trainer.train()
            found.append(logged(trainer))
    return found


def narrow():
    """bfloat16, compared as coarsely as it is."""
    with tempfile.TemporaryDirectory() as folder:
        trainer = InOrder(model(), arguments(folder, bf16=True), train_dataset=data)
        trainer.train()
        return [round(loss, 1) for loss in logged(trainer)[::2]]


def optimizers():
    """Optimizers by name."""
    found = []
    for name in ("adamw_torch", "adafactor", "sgd", "adagrad", "rmsprop"):
        with tempfile.TemporaryDirectory() as folder:
            settings = arguments(folder, optim=name, weight_decay=0.01, adam_beta2=0.99)
            trainer = InOrder(model(), settings, train_dataset=data)
            trainer.train()
            found.append(logged(trainer))
    return found


def plans():
    """Plans of the learning rate by name."""
    found = []
    for name, further in (
        ("cosine", {}),
        ("cosine_with_restarts", {"num_cycles": 2}),
        ("polynomial", {"power": 2.0}),
        ("constant_with_warmup", {}),
        ("inverse_sqrt", {}),
        ("reduce_lr_on_plateau", {}),
        ("warmup_stable_decay", {"num_decay_steps": 2}),
    ):
        with tempfile.TemporaryDirectory() as folder:
            settings = arguments(
                folder, lr_scheduler_type=name, lr_scheduler_kwargs=further, warmup_steps=1,
                eval_strategy="steps", eval_steps=2,
            )  # fmt: skip
            trainer = InOrder(model(), settings, train_dataset=data, eval_dataset=data[:4])
            trainer.train()
            rates = [line["learning_rate"] for line in trainer.state.log_history if "loss" in line]
            found.append([rates, logged(trainer)])
    return found


class Stream(IterableDataset):
    """Rows without a length."""

    def __iter__(self):
        return iter(data)


def streamed():
    """Rows of a stream, smoothed labels, own losses."""
    with tempfile.TemporaryDirectory() as folder:
        settings = arguments(folder, label_smoothing_factor=0.1)
        trainer = Trainer(model(), settings, train_dataset=Stream())
        trainer.train()
        found = [logged(trainer)]

        def own(outputs, labels, num_items_in_batch=None):
            return torch.nn.functional.cross_entropy(outputs.logits * 2, labels)

        trainer = InOrder(model(), arguments(folder), train_dataset=data, compute_loss_func=own)
        trainer.train()
        return [*found, logged(trainer)]


def own_optimizer():
    """A program's own optimizer and plan, groups of parameters, and two models in turn."""
    with tempfile.TemporaryDirectory() as folder:
        net = model()
        optimizer = torch.optim.AdamW(
            [
                {"params": net.bert.parameters(), "lr": 1e-3},
                {"params": net.classifier.parameters()},
            ],
            lr=1e-2,
        )
        plan = torch.optim.lr_scheduler.OneCycleLR(optimizer, [1e-3, 1e-2], total_steps=5)
        trainer = InOrder(
            net,
            arguments(folder, max_grad_norm=0.5),
            train_dataset=data,
            optimizers=(optimizer, plan),
        )
        trainer.train()
        trainer.save_model(folder)
        again = BertForSequenceClassification.from_pretrained(folder)
        return [
            logged(trainer),
            again.classifier.weight,
            trainer.predict(data[:4]).predictions.sum(),
        ]


parts(callbacks, judged, saved_memory, narrow, optimizers, plans, streamed, own_optimizer)
