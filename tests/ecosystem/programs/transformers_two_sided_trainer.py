"""Seq2SeqTrainer with generated answers, collators of pairs, spans of answers, choices, masked words in order."""

import tempfile

import numpy as np
import torch
import transformers as tr
from common import fill, parts, train
from small_transformers import QUIET, SEQUENCES, WORDS, ids, mask
from tokenizers import Tokenizer, models, pre_tokenizers
from torch.utils.data import SequentialSampler

words = [
    "[PAD]",
    "[BOS]",
    "[EOS]",
    "[UNK]",
    "[MASK]",
    *"the cat sat on a mat dog ran far away".split(),
]
inner = Tokenizer(models.WordLevel({w: i for i, w in enumerate(words)}, unk_token="[UNK]"))
inner.pre_tokenizer = pre_tokenizers.Whitespace()
tokenizer = tr.PreTrainedTokenizerFast(
    tokenizer_object=inner, unk_token="[UNK]", pad_token="[PAD]", bos_token="[BOS]",
    eos_token="[EOS]", mask_token="[MASK]", cls_token="[BOS]", sep_token="[EOS]",
)  # fmt: skip


class InOrder(tr.Seq2SeqTrainer):
    """Rows as they come."""

    def _get_train_sampler(self, *args, **kwargs):
        return SequentialSampler(self.train_dataset)


def answers():
    """A T5 that is judged by what it says."""
    model = fill(
        tr.T5ForConditionalGeneration(
            tr.T5Config(
                vocab_size=len(words), d_model=16, d_kv=8, d_ff=32, num_layers=1, num_heads=2,
                dropout_rate=0.0, decoder_start_token_id=0, pad_token_id=0, eos_token_id=2,
            )
        )
    )  # fmt: skip
    texts = ["the cat sat", "a dog ran far away", "the mat", "on a mat the dog sat"]
    rows = [
        {
            **tokenizer(text, return_token_type_ids=False),
            "labels": tokenizer(text[::-1])["input_ids"],
        }
        for text in texts
    ]
    told = []

    def scores(given):
        said = np.where(given.predictions < 0, 0, given.predictions)
        told.append(tokenizer.batch_decode(said, skip_special_tokens=True))
        return {"words": float((said > 0).sum())}

    with tempfile.TemporaryDirectory() as folder:
        settings = tr.Seq2SeqTrainingArguments(
            folder, max_steps=3, per_device_train_batch_size=2, per_device_eval_batch_size=2,
            predict_with_generate=True, generation_max_length=6, learning_rate=1e-2, report_to=[],
            use_cpu=True, disable_tqdm=True, logging_steps=1, save_strategy="no",
        )  # fmt: skip
        trainer = InOrder(
            model, settings, train_dataset=rows, eval_dataset=rows, compute_metrics=scores,
            data_collator=tr.DataCollatorForSeq2Seq(tokenizer, model=model, pad_to_multiple_of=4),
        )  # fmt: skip
        trainer.train()
        found = [line["loss"] for line in trainer.state.log_history if "loss" in line]
        judged = trainer.evaluate(num_beams=2)
        said = trainer.predict(rows[:2]).predictions
        return [found, judged["eval_loss"], judged["eval_words"], len(told), said.sum()]


def heads():
    """Spans, choices, next sentences, words and orders, by BERT and its kin."""
    config = tr.BertConfig(**WORDS, **QUIET)
    both = {"input_ids": ids, "attention_mask": mask}
    starts, ends = torch.tensor([1, 3]), torch.tensor([2, 5])
    found = []
    for make, given in (
        (tr.BertForQuestionAnswering, {**both, "start_positions": starts, "end_positions": ends}),
        (tr.BertForMultipleChoice, {"input_ids": ids[None].repeat(2, 1, 1), "labels": starts // 2}),
        (tr.BertForNextSentencePrediction, {**both, "labels": starts // 2}),
        (tr.BertForPreTraining, {**both, "labels": ids, "next_sentence_label": starts // 2}),
        (tr.BertForTokenClassification, {**both, "labels": ids % 2}),
        (tr.BertLMHeadModel, {**both, "labels": ids}),
    ):
        model = fill(make(config))
        found += train(model, lambda: model(**given).loss, steps=2)
    for kind in ("regression", "multi_label_classification"):
        count = 1 if kind == "regression" else 3
        own = tr.RobertaConfig(
            **{**WORDS, "max_position_embeddings": 40}, **QUIET, num_labels=count, problem_type=kind
        )
        model = fill(tr.RobertaForSequenceClassification(own))
        aims = starts.float() if count == 1 else (torch.arange(6).reshape(2, 3) % 2).float()
        found += train(model, lambda: model(**both, labels=aims).loss, steps=2)
    electra = tr.ElectraConfig(**WORDS, **QUIET, embedding_size=16)
    for make in (tr.ElectraForPreTraining, tr.ElectraForMaskedLM, tr.ElectraForTokenClassification):
        model = fill(make(electra))
        found += train(model, lambda: model(**both, labels=ids % 2).loss, steps=2)
    t5 = tr.T5Config(
        vocab_size=40, d_model=16, d_kv=8, d_ff=32, num_layers=1, num_heads=2, dropout_rate=0.0,
        num_labels=2, eos_token_id=39, decoder_start_token_id=0,
    )  # fmt: skip
    ended = ids.clone()
    ended[:, -1] = 39
    for make, given in (
        (tr.T5ForSequenceClassification, {"input_ids": ended, "labels": starts // 2}),
        (tr.T5ForTokenClassification, {"input_ids": ids, "labels": ids % 2}),
        (
            tr.T5ForQuestionAnswering,
            {"input_ids": ids, "start_positions": starts, "end_positions": ends},
        ),
    ):
        model = fill(make(t5))
        found += train(model, lambda: model(**given).loss, steps=2)
    bart = tr.BartConfig(**{**SEQUENCES, "eos_token_id": 39}, num_labels=2)
    model = fill(tr.BartForSequenceClassification(bart))
    found += train(model, lambda: model(ended, labels=starts // 2).loss, steps=2)
    return found


def collated():
    """Collators: padding of labels, of choices, permutations' shapes."""
    rows = [{"input_ids": [5, 6, 7], "labels": [0, 1, 0]}, {"input_ids": [8], "labels": [1]}]
    labels = tr.DataCollatorForTokenClassification(tokenizer)(rows)
    packed = tr.DataCollatorWithFlattening()([{"input_ids": [5, 6, 7]}, {"input_ids": [8, 9]}])
    masked = tr.DataCollatorForLanguageModeling(tokenizer, mlm_probability=0.5)(
        [{"input_ids": list(range(5, 13))}] * 3
    )
    plain = tr.default_data_collator([{"x": [1.0, 2.0], "label": 1}, {"x": [3.0, 4.0], "label": 0}])
    return [
        labels["labels"], labels["attention_mask"], packed["position_ids"], packed["labels"],
        list(masked["labels"].shape), plain["x"], plain["labels"],
    ]  # fmt: skip


parts(answers, heads, collated)
