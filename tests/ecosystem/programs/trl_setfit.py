"""trl's losses and trainers, datasets, evaluate."""

import tempfile

import torch
from common import fill, say
from datasets import Dataset
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import GPT2Config, GPT2LMHeadModel, PreTrainedTokenizerFast
from trl import DPOConfig, DPOTrainer, SFTConfig, SFTTrainer

words = ["[PAD]", "[UNK]", "[EOS]", *"the cat sat on a mat dog ran far away".split()]
inner = Tokenizer(models.WordLevel({w: i for i, w in enumerate(words)}, unk_token="[UNK]"))
inner.pre_tokenizer = pre_tokenizers.Whitespace()
tokenizer = PreTrainedTokenizerFast(
    tokenizer_object=inner, unk_token="[UNK]", pad_token="[PAD]", eos_token="[EOS]"
)


def net():
    """A small GPT-2."""
    return fill(
        GPT2LMHeadModel(
            GPT2Config(
                vocab_size=len(words), n_positions=32, n_embd=16, n_layer=1, n_head=2, resid_pdrop=0.0, embd_pdrop=0.0,
                attn_pdrop=0.0, bos_token_id=2, eos_token_id=2, pad_token_id=0,
            )
        )
    )  # fmt: skip


rows = Dataset.from_dict(
    {"text": ["the cat sat", "a dog ran", "the mat sat far", "a cat ran away"]}
)
rows = rows.map(lambda row: {"length": len(row["text"].split())})
found = [sum(rows["length"]), *rows.with_format("torch")["length"][:].shape]
common = {"max_steps": 2, "per_device_train_batch_size": 4, "report_to": [], "use_cpu": True, "disable_tqdm": True,
          "logging_steps": 1, "save_strategy": "no", "learning_rate": 1e-2, "bf16": False, "gradient_checkpointing": False}  # fmt: skip
with tempfile.TemporaryDirectory() as folder:
    trainer = SFTTrainer(
        model=net(),
        args=SFTConfig(folder, max_length=16, **common),
        train_dataset=rows.select_columns("text"),
        processing_class=tokenizer,
    )
    trainer.train()
    found += [each["loss"] for each in trainer.state.log_history if "loss" in each]
    pairs = Dataset.from_dict(
        {"prompt": ["the cat", "a dog"], "chosen": ["sat", "ran far"], "rejected": ["away", "mat"]}
    )
    trainer = DPOTrainer(
        model=net(),
        ref_model=net(),
        args=DPOConfig(folder, beta=0.1, **common),
        train_dataset=pairs,
        processing_class=tokenizer,
    )
    trainer.train()
    found += [each["loss"] for each in trainer.state.log_history if "loss" in each]
say(*found)
