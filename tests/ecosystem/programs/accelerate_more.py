import tempfile

import torch
from accelerate import Accelerator, init_empty_weights, load_checkpoint_and_dispatch
from accelerate.utils import ProjectConfiguration, set_seed, tqdm
from common import fill, picture, say

found = []


def learn(accelerator, steps, at=0):
    """A network, after some steps, with all that is prepared."""
    model = fill(torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Tanh(), torch.nn.Linear(8, 2)))
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.05)
    plan = torch.optim.lr_scheduler.StepLR(optimizer, 2, 0.5)
    rows = torch.utils.data.TensorDataset(picture(12, 4), torch.arange(12) % 2)
    loader = torch.utils.data.DataLoader(rows, batch_size=3)
    return accelerator.prepare(model, optimizer, plan, loader)


with tempfile.TemporaryDirectory() as folder:
    for precision in ("no", "bf16"):
        accelerator = Accelerator(
            cpu=True, gradient_accumulation_steps=2, mixed_precision=precision,
            project_config=ProjectConfiguration(folder, automatic_checkpoint_naming=False),
        )  # fmt: skip
        set_seed(3)
        model, optimizer, plan, loader = learn(accelerator, 4)
        for place, (x, y) in enumerate(tqdm(loader, disable=True)):
            with accelerator.accumulate(model):
                loss = torch.nn.functional.cross_entropy(model(x), y)
                accelerator.backward(loss)
                if accelerator.sync_gradients:
                    accelerator.clip_grad_value_(model.parameters(), 0.5)
                optimizer.step()
                plan.step()
                optimizer.zero_grad()
            if precision == "no":
                found.append(loss.item())
            if place == 1:
                accelerator.save_state(folder + "/kept")
        found += [plan.get_last_lr()[0], accelerator.optimizer_step_was_skipped]
        accelerator.load_state(folder + "/kept")
        inner = accelerator.unwrap_model(model)
        found += [round(float(inner[0].weight.sum()), 2), accelerator.gather(torch.ones(3)).sum()]
        rest = accelerator.skip_first_batches(loader, 2)
        found.append(len(list(rest)))
        accelerator.save_model(model, folder + "/model")
        with init_empty_weights():
            empty = torch.nn.Sequential(
                torch.nn.Linear(4, 8), torch.nn.Tanh(), torch.nn.Linear(8, 2)
            )
        found.append(empty[0].weight.device.type == "meta")
        filled = load_checkpoint_and_dispatch(empty, folder + "/model", device_map={"": "cpu"})
        found.append(round(float(filled(picture(2, 4)).sum()), 2))
        accelerator.free_memory()
        accelerator._reset_state() if hasattr(accelerator, "_reset_state") else None
        from accelerate.state import AcceleratorState

        AcceleratorState._reset_state(True)
say(*found)
