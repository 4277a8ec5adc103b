"""Fine-tunes a tagger of named entities or other tags of words, and keeps the best model on dev.

    python -m pipelines.run_tagging --train_file=eng.train --dev_file=eng.testa --predict_file=eng.testb \\
        --model=google-bert/bert-base-cased --output_dir=runs/ner --seed=1,2,3,4,5
    python -m pipelines.run_tagging --train_file=train.jsonl --dev_file=dev.jsonl --model=google-bert/bert-base-cased \\
        --output_dir=runs/entities

A file has one word per line with its tag in the last column (CoNLL), or is JSONL with `tokens` and `tags`, or with
`text` and spans, as doccano, Label Studio, Prodigy and spaCy write it. Tags are IOB1, IOB2, IOBES, BMES, BILOU, types
without prefixes or plain tags, such as parts of speech; the scheme is recognized. Sentences longer than
`--sequence_length` are read in windows that overlap by half; with `--document_context`, windows run over whole
documents, as in the paper. Flags with several values form a grid; the same command resumes interrupted runs and keeps
finished ones. `--output_dir` contains `flags.txt`, `runs/`, the predictions of the best run in the form of the files,
`dev_predictions` and `predictions`, `results.json`, `results.md`, `report.html`,
the best model in `model/` and its export, from text to entities, in `saved_model/1/`.
"""

from keras_bert.tasks.tagging.data import TaggingSettings, source_of

from . import command
from .common_flags import Distillation, Files, PredictFile, TaskFlags
from .common_flags import check_task as check
from .common_flags import finetune as main


class Arguments(Files, PredictFile, TaggingSettings, Distillation, TaskFlags):
    task = "tagging"
    Settings = TaggingSettings
    texts = '"A text with names."'
    open = staticmethod(source_of)
    wording = TaskFlags.wording | {"train": ": CoNLL or JSONL", "predict": "; scored if it has tags"}
    others = TaskFlags.others | {
        "answer_at_precision": "It is for one class or one choice of each text; --calibrate fits a temperature for tags"
    }


if __name__ == "__main__":
    command.run(__doc__, Arguments, main, check, resumes=True)
