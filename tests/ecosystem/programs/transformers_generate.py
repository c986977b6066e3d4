"""What `generate` offers: beams, groups of beams, processors of scores, caches, stopping, streams."""

import torch
from common import fill, say
from transformers import (
    GPT2Config,
    GPT2LMHeadModel,
    LogitsProcessor,
    LogitsProcessorList,
    StoppingCriteria,
    StoppingCriteriaList,
    StaticCache,
)
from transformers.generation import (
    RepetitionPenaltyLogitsProcessor,
    TemperatureLogitsWarper,
    TopKLogitsWarper,
    TopPLogitsWarper,
)

model = fill(
    GPT2LMHeadModel(GPT2Config(vocab_size=40, n_positions=64, n_embd=16, n_layer=2, n_head=2))
).eval()
ids = torch.tensor([[5, 9, 11, 2], [7, 1, 30, 4]])
mask = torch.tensor([[0, 1, 1, 1], [1, 1, 1, 1]])
common = {"attention_mask": mask, "max_new_tokens": 6, "pad_token_id": 0, "do_sample": False}


class Shift(LogitsProcessor):
    """Prefers words by their number."""

    def __call__(self, input_ids, scores):
        return scores + torch.arange(scores.shape[-1]) * 0.001


class Enough(StoppingCriteria):
    """Stops at nine words."""

    def __call__(self, input_ids, scores, **kwargs):
        return torch.full((input_ids.shape[0],), input_ids.shape[1] >= 9)


found = []
found += model.generate(ids, **common).flatten().tolist()
told = model.generate(
    ids, **common, num_beams=4, num_return_sequences=2, return_dict_in_generate=True,
    output_scores=True, length_penalty=0.7,
)  # fmt: skip
found += told.sequences.flatten().tolist() + told.sequences_scores.tolist()
found += model.compute_transition_scores(
    told.sequences, told.scores, told.beam_indices, normalize_logits=False
).flatten().tolist()  # fmt: skip
found += (
    model.generate(ids, **common, no_repeat_ngram_size=2, repetition_penalty=1.3).flatten().tolist()
)
found += model.generate(
    ids, **common, logits_processor=LogitsProcessorList([Shift()]), bad_words_ids=[[3], [8, 9]],
    stopping_criteria=StoppingCriteriaList([Enough()]), min_new_tokens=2,
).flatten().tolist()  # fmt: skip
found += model.generate(ids, **common, use_cache=False).flatten().tolist()
# Drawing by top-k 1 leaves one word to draw.
drawn = model.generate(
    ids, attention_mask=mask, max_new_tokens=6, do_sample=True, top_k=1, pad_token_id=0
)
found += drawn.flatten().tolist()
sampled = model.generate(
    ids, attention_mask=mask, max_new_tokens=6, do_sample=True, top_p=0.9, temperature=0.7,
    num_return_sequences=3, pad_token_id=0,
)  # fmt: skip
found += [*sampled.shape, int(sampled.max()) < 40]
scores = torch.sin(torch.arange(80.0) * 0.9).reshape(2, 40) * 3
for warper in (
    TopKLogitsWarper(5), TopPLogitsWarper(0.6), TemperatureLogitsWarper(0.3),
    RepetitionPenaltyLogitsProcessor(1.5),
):  # fmt: skip
    found.append(warper(ids, scores.clone()).softmax(-1).square().sum())
with torch.no_grad():
    past = model(ids, attention_mask=mask, use_cache=True)
    next_word = past.logits[:, -1:].argmax(-1)
    longer = torch.cat([mask, torch.ones(2, 1, dtype=torch.long)], 1)
    step = model(next_word, attention_mask=longer, past_key_values=past.past_key_values)
found += step.logits.flatten()[:10].tolist()
say(*found)
