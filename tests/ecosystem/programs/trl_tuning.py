"""Supervised tuning and preferences by trl, with adapters of peft, on words of our own."""

import tempfile

import torch
from common import fill, say
from datasets import Dataset
from peft import LoraConfig
from small_transformers import GROUPED
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast
from trl import DPOConfig, DPOTrainer, SFTConfig, SFTTrainer

known = "<pad> <s> </s> <unk> the cat sat on mat dog ran far and then it was good bad very".split()
words = Tokenizer(models.WordLevel({word: place for place, word in enumerate(known)}, "<unk>"))
words.pre_tokenizer = pre_tokenizers.Whitespace()
words = PreTrainedTokenizerFast(
    tokenizer_object=words, pad_token="<pad>", bos_token="<s>", eos_token="</s>", unk_token="<unk>"
)


def model():
    """A small Llama."""
    return fill(LlamaForCausalLM(LlamaConfig(**GROUPED)))


def shared(folder):
    """What all runs are told."""
    return {"output_dir": folder, "max_steps": 3, "per_device_train_batch_size": 2, "learning_rate": 1e-2, "report_to": [], "use_cpu": True,
            "logging_steps": 1, "save_strategy": "no", "seed": 1, "bf16": False, "fp16": False, "disable_tqdm": True, "max_length": 16}  # fmt: skip


def losses(trainer):
    """What the trainer logged."""
    trainer._get_train_sampler = lambda *a, **k: torch.utils.data.SequentialSampler(
        trainer.train_dataset
    )
    trainer.train()
    return [
        line[key]
        for line in trainer.state.log_history
        for key in ("loss", "grad_norm")
        if key in line
    ]


found = []
texts = Dataset.from_dict(
    {
        "text": ["the cat sat on the mat", "the dog ran far", "then it was good", "it was very bad"]
        * 2
    }
)
pairs = Dataset.from_dict(
    {
        "prompt": ["the cat", "the dog"] * 3,
        "chosen": [" was good", " ran far"] * 3,
        "rejected": [" was bad", " sat"] * 3,
    }
)
with tempfile.TemporaryDirectory() as folder:
    args = SFTConfig(**shared(folder), gradient_checkpointing=False)
    found += losses(SFTTrainer(model(), args=args, train_dataset=texts, processing_class=words))
    adapted = SFTTrainer(
        model(),
        args=args,
        train_dataset=texts,
        processing_class=words,
        peft_config=LoraConfig(r=2, target_modules=["q_proj", "v_proj"]),
    )
    with torch.no_grad():
        for place, (name, value) in enumerate(adapted.model.named_parameters()):
            if "lora_" in name:
                value.copy_(
                    (torch.sin(torch.arange(value.numel()) * 0.53 + place) * 0.1).reshape(
                        value.shape
                    )
                )
    found += losses(adapted)
    args = DPOConfig(**shared(folder), beta=0.2, gradient_checkpointing=False)
    found += losses(
        DPOTrainer(
            model(), ref_model=model(), args=args, train_dataset=pairs, processing_class=words
        )
    )
say(*found)
