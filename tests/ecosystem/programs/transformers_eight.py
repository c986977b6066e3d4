"""The eight models by name: steps of AdamW with a schedule, greedy, beams, sampling, files."""

import tempfile

import torch
from common import fill, picture, say
from small_transformers import (
    GROUPED,
    PICTURES,
    QUIET,
    SEQUENCES,
    WORDS,
    ids,
    labels_of_pictures,
    mask,
    pictures,
)
from transformers import (
    BertConfig,
    BertForMaskedLM,
    GPT2Config,
    GPT2LMHeadModel,
    LlamaConfig,
    LlamaForCausalLM,
    MistralConfig,
    MistralForCausalLM,
    Qwen2Config,
    Qwen2ForCausalLM,
    T5Config,
    T5ForConditionalGeneration,
    ViTConfig,
    ViTForImageClassification,
    WhisperConfig,
    WhisperForConditionalGeneration,
    get_cosine_schedule_with_warmup,
)

found = []


def learn(model, **given):
    """Losses of four steps, clipped, by a schedule."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-3, weight_decay=0.01)
    plan = get_cosine_schedule_with_warmup(optimizer, 1, 6)
    for _ in range(4):
        loss = model(**given).loss
        loss.backward()
        norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        plan.step()
        optimizer.zero_grad()
        found.extend([loss.item(), norm.item()])
    model.eval()


def kept(model, **given):
    """Whether what was saved says what the model says."""
    with tempfile.TemporaryDirectory() as folder:
        model.save_pretrained(folder, max_shard_size="20KB")
        again = type(model).from_pretrained(folder).eval()
    with torch.no_grad():
        found.append((again(**given).logits - model(**given).logits).abs().max() < 1e-6)
    return again


words = {"input_ids": ids, "attention_mask": mask}
bert = fill(BertForMaskedLM(BertConfig(**WORDS, **QUIET)))
learn(bert, labels=torch.where(ids % 2 == 0, ids, -100), **words)
found.append(kept(bert, **words)(**words).logits.abs().sum())
gpt = {"vocab_size": 40, "n_positions": 32, "n_embd": 16, "n_layer": 2, "n_head": 2, "resid_pdrop": 0.0,
       "embd_pdrop": 0.0, "attn_pdrop": 0.0, "bos_token_id": 1, "eos_token_id": 2}  # fmt: skip
for model in (
    GPT2LMHeadModel(GPT2Config(**gpt)), LlamaForCausalLM(LlamaConfig(**GROUPED, rope_theta=500.0)),
    Qwen2ForCausalLM(Qwen2Config(**GROUPED, tie_word_embeddings=True)), MistralForCausalLM(MistralConfig(**GROUPED, sliding_window=3)),
):  # fmt: skip
    fill(model)
    learn(model, labels=ids, **words)
    again = kept(model, **words)
    left = {"input_ids": ids[:, :5], "attention_mask": torch.tensor([[1] * 5, [0, 0, 1, 1, 1]])}
    found += (
        again.generate(**left, max_new_tokens=6, do_sample=False, pad_token_id=0).flatten().tolist()
    )
    told = again.generate(**left, max_new_tokens=5, num_beams=3, num_return_sequences=2, do_sample=False, pad_token_id=0,
                          output_scores=True, return_dict_in_generate=True)  # fmt: skip
    found += [*told.sequences.flatten().tolist(), *told.sequences_scores.tolist()]
    torch.manual_seed(5)
    many = again.generate(
        ids[:1, :5].repeat(600, 1),
        max_new_tokens=1,
        do_sample=True,
        top_k=4,
        temperature=0.9,
        pad_token_id=0,
    )
    logits = again(ids[:1, :5]).logits[0, -1] / 0.9
    best = logits.topk(4)
    shares = torch.stack([(many[:, -1] == word).float().mean() for word in best.indices])
    found += [shares.sum(), ((shares - best.values.softmax(0)).abs() < 0.1).all()]
t5 = T5Config(vocab_size=40, d_model=16, d_kv=8, d_ff=32, num_layers=2, num_heads=2, dropout_rate=0.0, decoder_start_token_id=0,
              pad_token_id=0, eos_token_id=1)  # fmt: skip
t5 = fill(T5ForConditionalGeneration(t5))
learn(t5, labels=ids[:, :6].contiguous(), **words)
found += t5.generate(**words, max_new_tokens=6, do_sample=False).flatten().tolist()
found += (
    t5.generate(**words, max_new_tokens=6, num_beams=4, early_stopping=True, do_sample=False)
    .flatten()
    .tolist()
)
kept(t5, decoder_input_ids=ids[:, :3], **words)
vit = fill(ViTForImageClassification(ViTConfig(**PICTURES)))
learn(vit, pixel_values=pictures, labels=labels_of_pictures)
told = kept(vit, pixel_values=pictures)(pixel_values=pictures, output_hidden_states=True)
found += [told.logits.sum(), *(each.sum() for each in told.hidden_states)]
sizes = {name: size for name, size in SEQUENCES.items() if name != "max_position_embeddings"}
whisper = fill(WhisperForConditionalGeneration(WhisperConfig(**{**sizes, "decoder_start_token_id": 1}, num_mel_bins=8,
                                                             max_source_positions=20, max_target_positions=16)))  # fmt: skip
sound = picture(2, 8, 40)
learn(whisper, input_features=sound, labels=ids[:, :6].contiguous())
found += whisper.generate(sound, max_new_tokens=5, do_sample=False).flatten().tolist()
found += whisper.generate(sound, max_new_tokens=4, num_beams=2, do_sample=False).flatten().tolist()
kept(whisper, input_features=sound, decoder_input_ids=ids[:, :3])
say(*found)
