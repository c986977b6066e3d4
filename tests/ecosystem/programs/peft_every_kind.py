"""peft: every kind of adapter there is, trained, saved, loaded, merged; adapters added up."""

import tempfile

import peft
import torch
from common import fill, parts, train
from small_transformers import GROUPED, ids
from transformers import LlamaConfig, LlamaForCausalLM

TASK, TWO = {"task_type": "CAUSAL_LM"}, ["q_proj", "v_proj"]
LOW = {**TASK, "r": 4, "target_modules": TWO}
mask = torch.ones_like(ids)
KINDS = {
    "lora": lambda: peft.LoraConfig(**LOW),
    "dora": lambda: peft.LoraConfig(**LOW, use_dora=True),
    "all": lambda: peft.LoraConfig(**TASK, r=4, target_modules="all-linear", use_rslora=True),
    "pissa": lambda: peft.LoraConfig(**LOW, init_lora_weights="pissa"),
    "biases": lambda: peft.LoraConfig(**LOW, modules_to_save=["lm_head"], bias="lora_only"),
    "words": lambda: peft.LoraConfig(**TASK, r=4, target_modules=["embed_tokens", "q_proj"]),
    "tokens": lambda: peft.TrainableTokensConfig(
        **TASK, token_indices=[3, 4], target_modules=["embed_tokens"]
    ),
    "ia3": lambda: peft.IA3Config(
        **TASK, target_modules=["k_proj", "down_proj"], feedforward_modules=["down_proj"]
    ),
    "loha": lambda: peft.LoHaConfig(**LOW),
    "lokr": lambda: peft.LoKrConfig(**LOW),
    "adalora": lambda: peft.AdaLoraConfig(
        **TASK, target_modules=TWO, init_r=4, target_r=2, total_step=10, tinit=1, tfinal=2
    ),
    "oft": lambda: peft.OFTConfig(**TASK, oft_block_size=8, target_modules=["q_proj"]),
    "boft": lambda: peft.BOFTConfig(**TASK, boft_block_size=4, target_modules=["q_proj"]),
    "norms": lambda: peft.LNTuningConfig(**TASK),
    "hra": lambda: peft.HRAConfig(**LOW),
    "c3a": lambda: peft.C3AConfig(**TASK, block_size=8, target_modules=TWO),
    "road": lambda: peft.RoadConfig(**TASK, target_modules=TWO, group_size=8),
}
BEFORE = {  # what stands before the words, and is not merged
    "prefix": lambda: peft.PrefixTuningConfig(**TASK, num_virtual_tokens=3),
    "prompt": lambda: peft.PromptTuningConfig(**TASK, num_virtual_tokens=3),
    "encoder": lambda: peft.PromptEncoderConfig(
        **TASK, num_virtual_tokens=3, encoder_hidden_size=8
    ),
    "adaption": lambda: peft.AdaptionPromptConfig(**TASK, adapter_len=3, adapter_layers=2),
}


def base():
    """The model that is adapted."""
    return fill(LlamaForCausalLM(LlamaConfig(**GROUPED)))


def set_adapters(model, size=0.05):
    """Adapters' weights that are not drawn."""
    with torch.no_grad():
        for place, value in enumerate(p for p in model.parameters() if p.requires_grad):
            steps = torch.arange(value.numel(), dtype=torch.float32)
            value.copy_((torch.sin(steps * 0.7 + place) * size).reshape(value.shape))
    return model


def adapted(make, merged):
    """Losses, the number of weights, the model read back, and merged."""
    model = set_adapters(peft.get_peft_model(base(), make()))
    given = {"input_ids": ids, "attention_mask": mask}
    found = train(model, lambda: model(**given, labels=ids).loss, steps=2, lr=0.5)
    found.append(sum(p.numel() for p in model.parameters() if p.requires_grad))
    model.eval()
    with tempfile.TemporaryDirectory() as folder:
        model.save_pretrained(folder)
        found.append(peft.PeftModel.from_pretrained(base(), folder).eval()(**given).logits)
    return [*found, model.merge_and_unload()(**given).logits] if merged else found


def kinds():
    """Adapters in the layers, and before the words."""
    inside = [adapted(make, True) for make in KINDS.values()]
    return [inside, [adapted(make, False) for make in BEFORE.values()]]


def added():
    """Adapters added up in several ways, chosen, left out, merged and unmerged."""
    model = peft.get_peft_model(base(), peft.LoraConfig(**LOW), adapter_name="a")
    model.add_adapter("b", peft.LoraConfig(**LOW))
    for name in ("a", "b"):
        model.set_adapter(name)
        set_adapters(model, 0.3)
    found = []
    for way in ("linear", "svd", "cat", "ties", "magnitude_prune", "magnitude_prune_svd"):
        share = {"density": 0.5} if "ties" in way or "prune" in way else {}
        model.add_weighted_adapter(["a", "b"], [0.7, 0.4], way, combination_type=way, **share)
        model.set_adapter(way)
        found.append(model(input_ids=ids).logits)
    model.set_adapter("a")
    with model.disable_adapter():
        found.append(model(input_ids=ids).logits)
    model.delete_adapter("svd")
    model.merge_adapter()
    found.append(model(input_ids=ids).logits)
    model.unmerge_adapter()
    mixed = model.eval()(input_ids=ids, adapter_names=["a", "b"]).logits
    return [*found, model(input_ids=ids).logits, mixed, len(model.peft_config)]


parts(kinds, added)
