import tempfile

import torch
from common import fill, say, train
from peft import (
    AdaLoraConfig,
    IA3Config,
    LoraConfig,
    LoHaConfig,
    PeftModel,
    PrefixTuningConfig,
    PromptTuningConfig,
    get_peft_model,
    get_peft_model_state_dict,
)
from transformers import LlamaConfig, LlamaForCausalLM

ids = torch.arange(16).reshape(2, 8) * 3 % 40


def base():
    """A small Llama."""
    return fill(
        LlamaForCausalLM(
            LlamaConfig(
                vocab_size=40, hidden_size=16, intermediate_size=32, num_hidden_layers=2,
                num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=64,
            )
        )
    )  # fmt: skip


def learn(model):
    """Losses of three steps."""
    return train(model, lambda: model(input_ids=ids, labels=ids).loss, lr=0.1)


found = []
kinds = {
    "lora": LoraConfig(
        r=2, lora_alpha=4, target_modules=["q_proj", "v_proj"], task_type="CAUSAL_LM"
    ),
    "dora": LoraConfig(r=2, use_dora=True, use_rslora=True, target_modules="all-linear"),
    "ia3": IA3Config(target_modules=["k_proj", "down_proj"], feedforward_modules=["down_proj"]),
    "loha": LoHaConfig(r=2, target_modules=["q_proj"]),
    "prefix": PrefixTuningConfig(task_type="CAUSAL_LM", num_virtual_tokens=3),
    "prompt": PromptTuningConfig(task_type="CAUSAL_LM", num_virtual_tokens=3),
    "adalora": AdaLoraConfig(init_r=3, target_r=2, total_step=10, target_modules=["q_proj"]),
}
for name, config in kinds.items():
    model = get_peft_model(base(), config)
    for place, value in enumerate(p for p in model.parameters() if p.requires_grad):
        steps = torch.arange(value.numel(), dtype=torch.float32)
        with torch.no_grad():
            value.copy_((torch.sin(steps * 0.53 + place) * 0.1).reshape(value.shape))
    found += learn(model)
    found.append(sum(v.numel() for v in get_peft_model_state_dict(model).values()))
    model.eval()
    with torch.no_grad():
        before = model(input_ids=ids).logits
    with tempfile.TemporaryDirectory() as folder:
        model.save_pretrained(folder)
        again = PeftModel.from_pretrained(base(), folder).eval()
        with torch.no_grad():
            found.append((again(input_ids=ids).logits - before).abs().max() < 1e-5)
    if name in ("lora", "dora", "ia3", "loha"):
        merged = model.merge_and_unload()
        with torch.no_grad():
            found.append((merged(input_ids=ids).logits - before).abs().max() < 1e-4)
two = get_peft_model(base(), kinds["lora"])
two.add_adapter("second", LoraConfig(r=3, target_modules=["q_proj"], task_type="CAUSAL_LM"))
two.set_adapter("second")
found.append(two.get_nb_trainable_parameters()[0])
with two.disable_adapter():
    found.append(two(input_ids=ids).logits.sum())
say(*found)
