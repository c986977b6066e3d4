"""Further ways of generating: assistants, own criteria and processors, streams, kept caches, embeddings."""

import torch
from common import fill, parts
from small_transformers import GROUPED, SEQUENCES, ids
from transformers import (
    BartConfig,
    BartForConditionalGeneration,
    DynamicCache,
    GenerationConfig,
    LlamaConfig,
    LlamaForCausalLM,
    LogitsProcessor,
    LogitsProcessorList,
    StoppingCriteria,
    StoppingCriteriaList,
)

config = LlamaConfig(**GROUPED)
model = fill(LlamaForCausalLM(config)).eval()
small = fill(LlamaForCausalLM(LlamaConfig(**{**GROUPED, "num_hidden_layers": 1}))).eval()
start = ids[:, :4]
SHORT = {"max_new_tokens": 5, "pad_token_id": 0, "do_sample": False}


def assisted():
    """A smaller model proposes, the larger one decides; words of the prompt propose."""
    by_model = model.generate(start[:1], assistant_model=small, **SHORT)
    by_prompt = model.generate(start[:1].repeat(1, 2), prompt_lookup_num_tokens=2, **SHORT)
    return by_model, by_prompt


class Push(LogitsProcessor):
    """Makes one word likelier with every step."""

    def __call__(self, input_ids, scores):
        scores = scores.clone()
        scores[:, 7] += 0.05 * input_ids.shape[1]
        return scores


class Enough(StoppingCriteria):
    """Stops rows after seven words."""

    def __call__(self, input_ids, scores, **kwargs):
        return torch.full((input_ids.shape[0],), input_ids.shape[1] >= 7)


def own_rules():
    """Processors and criteria of a program."""
    return model.generate(
        start,
        logits_processor=LogitsProcessorList([Push()]),
        stopping_criteria=StoppingCriteriaList([Enough()]),
        **{**SHORT, "max_new_tokens": 9},
    )


class Heard:
    """What a streamer is told."""

    def __init__(self):
        self.words = []

    def put(self, value):
        self.words += value.flatten().tolist()

    def end(self):
        self.words.append(-1)


def streamed():
    """Words as they come."""
    heard = Heard()
    model.generate(start[:1], streamer=heard, **SHORT)
    return heard.words


def kept():
    """A cache filled by one call and used by the next; steps by hand."""
    cache = DynamicCache(config=config)
    with torch.no_grad():
        first = model(start, past_key_values=cache, use_cache=True).logits
        length = cache.get_seq_length()
        second = model(ids[:, 4:6], past_key_values=cache, use_cache=True).logits
        cache.crop(-2)
        third = model(ids[:, 4:6], past_key_values=cache, use_cache=True).logits
    return first, length, second, third


def by_embeddings():
    """Embeddings in place of words."""
    given = model.get_input_embeddings()(start)
    return model.generate(inputs_embeds=given, **SHORT)


def told():
    """Scores, attentions, hidden states, and the share of each word in a beam's."""
    out = model.generate(
        start, num_beams=3, output_scores=True, output_hidden_states=True, output_attentions=True,
        return_dict_in_generate=True, output_logits=True, **{**SHORT, "max_new_tokens": 3},
    )  # fmt: skip
    shares = model.compute_transition_scores(out.sequences, out.scores, out.beam_indices)
    return out.sequences, out.sequences_scores, shares, len(out.hidden_states), out.logits[0]


def narrowed():
    """Sampling from so few words that nothing is left to chance."""
    found = []
    for options in (
        {"top_k": 1},
        {"top_p": 1e-6},
        {"min_p": 1.0},
        {"typical_p": 1e-6},
        {"epsilon_cutoff": 0.9, "top_k": 1},
        {"temperature": 1e-6, "top_k": 1},
    ):
        found.append(model.generate(start, **{**SHORT, "do_sample": True}, **options))
    return found


def bound():
    """Rules of a configuration: forced words, exponential penalties, suppressed ones, guidance."""
    found = []
    for options in (
        {"forced_eos_token_id": 2, "forced_bos_token_id": 1},
        {"exponential_decay_length_penalty": (1, 1.5)},
        {"suppress_tokens": [3, 4, 5], "begin_suppress_tokens": [6]},
        {"guidance_scale": 1.5},
        {"sequence_bias": [[[7], 2.0]]},
        {"renormalize_logits": True, "num_beams": 2, "early_stopping": True},
        {"encoder_repetition_penalty": 1.2},
    ):
        settings = GenerationConfig(**SHORT, **options)
        found.append(model.generate(start, generation_config=settings))
    return found


def two_sided():
    """An encoder's words: beams, prefixes, no words twice."""
    bart = fill(BartForConditionalGeneration(BartConfig(**SEQUENCES, forced_eos_token_id=2))).eval()
    return [
        bart.generate(ids, max_new_tokens=6, num_beams=2, no_repeat_ngram_size=2),
        bart.generate(ids, max_new_tokens=6, encoder_no_repeat_ngram_size=2, num_beams=1),
        bart.generate(ids, decoder_input_ids=ids[:, :2], max_new_tokens=4, num_beams=3),
        bart.generate(
            ids, max_new_tokens=5, prefix_allowed_tokens_fn=lambda row, words: [3, 5, 9, 2]
        ),
    ]


parts(assisted, own_rules, streamed, kept, by_embeddings, told, narrowed, bound, two_sided)
