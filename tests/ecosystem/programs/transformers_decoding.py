"""Ways of generating: penalties, groups of beams, caches, scores; checkpointed training."""

import torch
from common import fill, say, train
from transformers import LlamaConfig, LlamaForCausalLM

ids = torch.arange(16).reshape(2, 8) * 3 % 36 + 3
config = LlamaConfig(
    vocab_size=40, hidden_size=16, num_hidden_layers=2, num_attention_heads=4,
    num_key_value_heads=2, intermediate_size=32, max_position_embeddings=32, pad_token_id=0,
    bos_token_id=1, eos_token_id=2,
)  # fmt: skip
model = fill(LlamaForCausalLM(config)).eval()
found = []
for options in (
    {"repetition_penalty": 1.3, "no_repeat_ngram_size": 2},
    {"num_beams": 4, "num_return_sequences": 2, "length_penalty": 0.8},
    {"min_new_tokens": 3, "bad_words_ids": [[5]]},
    {"cache_implementation": "static"},
    {"use_cache": False},
):
    made = model.generate(ids[:, :4], max_new_tokens=5, pad_token_id=0, **options)
    found += made.flatten().tolist()
told = model.generate(
    ids[:, :4], max_new_tokens=3, output_scores=True, return_dict_in_generate=True, pad_token_id=0
)
found += [scores.sum().item() for scores in told.scores]
mask = torch.ones(2, 8, dtype=torch.long)
mask[1, 6:] = 0
for attention in ("eager", "sdpa"):
    other = fill(LlamaForCausalLM._from_config(config, attn_implementation=attention))
    other.gradient_checkpointing_enable()
    given = {"input_ids": ids, "attention_mask": mask, "labels": ids}
    found += train(other, lambda: other(**given).loss, steps=2)
say(*found)
