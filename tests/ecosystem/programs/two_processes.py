"""Trainer and accelerate's loop, each by `accelerate launch` in two processes."""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

LOOP = """
import json, sys, torch
from accelerate import Accelerator
from accelerate.utils import gather_object
from common import fill, picture

accelerator = Accelerator(cpu=True, gradient_accumulation_steps=2)
net = fill(torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Tanh(), torch.nn.Linear(8, 1)))
rows = torch.utils.data.TensorDataset(picture(18, 4), picture(18, 1))
optimizer = torch.optim.AdamW(net.parameters(), lr=0.02)
plan = torch.optim.lr_scheduler.StepLR(optimizer, 2, 0.5)
loader = torch.utils.data.DataLoader(rows, batch_size=3)
net, optimizer, loader, plan = accelerator.prepare(net, optimizer, loader, plan)
told = [accelerator.num_processes, len(loader)]
for _ in range(2):
    for x, y in loader:
        with accelerator.accumulate(net):
            loss = torch.nn.functional.mse_loss(net(x), y)
            accelerator.backward(loss)
            if accelerator.sync_gradients:
                accelerator.clip_grad_norm_(net.parameters(), 1.0)
            optimizer.step()
            plan.step()
            optimizer.zero_grad()
        told.append(accelerator.reduce(loss.detach(), "mean").item())
scores = [accelerator.gather_for_metrics((net(x), y)) for x, y in loader]
told += [sum(len(y) for _, y in scores), sum(a.sum().item() for a, _ in scores)]
told += [len(gather_object([accelerator.process_index])), plan.get_last_lr()[0]]
accelerator.save_state(sys.argv[1])
before = [p.sum().item() for p in net.parameters()]
with torch.no_grad():
    for p in net.parameters():
        p.zero_()
accelerator.load_state(sys.argv[1])
told += before + [p.sum().item() for p in accelerator.unwrap_model(net).parameters()]
if accelerator.is_main_process:
    print("RESULT " + json.dumps(told))
"""
TRAINER = """
import json, sys, torch
from common import fill
from transformers import BertConfig, BertForSequenceClassification, Trainer, TrainingArguments

config = BertConfig(vocab_size=50, hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=32,
                    hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)
data = [{"input_ids": (torch.arange(8) + i) % 50, "labels": torch.tensor(i % 2)} for i in range(16)]

class InOrder(Trainer):
    def _get_train_sampler(self, *args, **kwargs):
        return torch.utils.data.SequentialSampler(self.train_dataset)

args = TrainingArguments(sys.argv[1], max_steps=4, per_device_train_batch_size=2, gradient_accumulation_steps=2, learning_rate=1e-2,
                         report_to=[], use_cpu=True, disable_tqdm=True, logging_steps=1, save_strategy="no", seed=1)
trainer = InOrder(model=fill(BertForSequenceClassification(config)), args=args, train_dataset=data, eval_dataset=data[:7])
trainer.train()
told = [line[key] for line in trainer.state.log_history for key in ("loss", "grad_norm") if key in line]
told.append(trainer.evaluate()["eval_loss"])
told += trainer.predict(data[:3]).predictions.flatten().tolist()
if trainer.is_world_process_zero():
    print("RESULT " + json.dumps(told + [args.world_size]))
"""
numbers = []
for place, text in enumerate((LOOP, TRAINER)):
    with tempfile.TemporaryDirectory() as folder:
        program = Path(folder) / "program.py"
        program.write_text(text)
        path = os.pathsep.join(
            [str(Path(__file__).resolve().parent), os.environ.get("PYTHONPATH", "")]
        )
        line = [sys.executable, "-m", "accelerate.commands.launch", "--num_processes", "2", "--num_machines", "1", "--cpu",
                "--mixed_precision", "no", "--dynamo_backend", "no", "--num_cpu_threads_per_process", "1", "--main_process_port", str(29617 + place),
                str(program), folder]  # fmt: skip
        done = subprocess.run(
            line,
            capture_output=True,
            text=True,
            env={**os.environ, "PYTHONPATH": path},
            check=False,
        )
        lines = [x for x in done.stdout.splitlines() if "RESULT " in x]
        if not lines:
            raise SystemExit(done.stderr[-2000:])
        numbers += json.loads(lines[0].partition("RESULT ")[2])
print("RESULT " + json.dumps(numbers))
