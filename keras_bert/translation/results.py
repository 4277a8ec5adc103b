"""What a finished run of a translation model consists of: translations, scores, checkpoint, SavedModel, report."""

import dataclasses
import json

import numpy as np

from keras_bert.checkpoints.save import save
from keras_bert.exporting.export import export
from keras_bert.files import write_json, write_text
from keras_bert.reports.environment import environment
from keras_bert.reports.page import Head
from keras_bert.training.progress import announced
from keras_bert.translation import metrics
from keras_bert.translation.report import write_translation_report

_EXAMPLES, _PICTURES = 8, 3  # In the report.


def conclude(task, trainer, results, average, test, output):
    """Writes what a finished run consists of; returns the text to print.

    Args:
        task: the `TranslationTask`.
        trainer: the `Trainer`.
        results: dict, the results of its `fit`.
        average: a `WeightAverage` of the model.
        test: `Pairs` to translate, or `None`.
        output: path of the run.
    """
    model = trainer.model
    translations, facts = task.select(average)
    scores = [("dev, " + name, score) for name, score in facts["scores"].items()]
    write_text(output / "dev.txt", "".join(f"{text}\n" for text in translations))
    if test is not None:
        found = task.translate(test.sources, "test")
        write_text(output / "test.txt", "".join(f"{text}\n" for text in found))
        if test.targets is not None:
            scores.append(("test", metrics.bleu(found, test.targets, task.settings.bleu_tokenizer)[0]))
    with announced("saving and exporting"):
        save(model, output / "model", task.tokenizer.vocabulary)
        options = {"beam": task.beam, "n_best": task.settings.beam_size}
        export(model, task.tokenizer, output / "saved_model" / "1", example={"text": task.example}, **options)
    write_json(output / "results.json", {"bleu": dict(scores), **facts, "best epoch": results})
    _report(task, trainer, scores, facts, translations, output)
    lines = [f"{name}: BLEU {score:.2f}" for name, score in scores]
    places = {"signature": facts["signature"], "translations": output / ("test.txt" if test else "dev.txt")}
    places |= {"report": output / "report.html", "model": output / "model", "saved model": output / "saved_model"}
    return "\n".join([*lines, *(f"{name + ':':13} {place}" for name, place in places.items())])


def _report(task, trainer, scores, facts, translations, output):
    """Writes `report.html`."""
    order, examples = _examples(task.dev, translations)
    config = task.config
    size = f"{config.num_encoder_layers} + {config.num_decoder_layers} layers of width {config.hidden_size}"
    head = Head(
        f"Translation, {output.name}",
        {
            "model": f"{size}, {trainer.model.count_params():,} parameters",
            "data": f"{task.train.examples:,} pairs, a vocabulary of {config.vocab_size:,} tokens",
            "tokens": f"{task.train.tokens:,} an epoch",
            "computed tokens": f"{task.train.computed / task.train.tokens:.2f} for each one, with padding",
            "weights": facts["weights"],
            "signature of BLEU": facts["signature"],
        },
        environment(0, trainer.strategy.num_replicas_in_sync),
        {name.replace("_", " "): value for name, value in (task.run_settings | dataclasses.asdict(task.beam)).items()},
    )
    lines = [json.loads(line) for line in (output / "metrics.jsonl").read_text().splitlines()]
    typical = [task.dev.sources[index] for index in order[len(order) // 2 :][:_PICTURES]]
    rows = [(name, f"{score:.2f}") for name, score in scores]
    write_translation_report(output / "report.html", head, lines, rows, examples, task.alignments(typical))


def _examples(dev, translations):
    """Returns the indices of the rows, the worst translation first, and the examples of the report."""
    chrf = [metrics.chrf(text, target) for text, target in zip(translations, dev.targets, strict=True)]
    order = [index for index in np.argsort(chrf, kind="stable") if dev.sources[index].strip()]
    typical = order[_EXAMPLES :: max(1, len(order) // _EXAMPLES)]
    examples = [
        {
            "row": dev.lines[index],
            "source": dev.sources[index],
            "reference": dev.targets[index],
            "translation": translations[index],
            "score": chrf[index],
        }
        for index in [*order[:_EXAMPLES], *typical[:_EXAMPLES]]
    ]
    return order, examples
