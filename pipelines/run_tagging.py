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

import dataclasses
import functools

import keras_bert
from keras_bert.tasks.tagging import data

from . import command, common_flags
from .arguments import flag


@dataclasses.dataclass(frozen=True)
class Arguments(data.TaggingSettings, common_flags.FinetuningFlags):
    train_file: str = flag(None, "Training data: CoNLL or JSONL.", required=True, section="data")
    dev_file: str = flag(None, "File to select the best run on.", required=True)
    predict_file: str = flag(None, "File to predict; scored if it has tags.")

    @functools.cached_property
    def data(self):
        """The training data, dev and the data to predict."""
        files = self.train_file, self.dev_file, self.predict_file
        return data.read_all(*files, self.document_context, **self.reading).first(self.max_train_examples)


def check(arguments):
    """Finds mistakes in flags and files."""
    arguments.check_model("google-bert/bert-base-cased")
    _ = arguments.data


def main(arguments):
    from keras_bert.tasks.base import Start
    from keras_bert.tasks.tagging.task import TaggingTask, predictions_name

    strategy, model = arguments.create_strategy(), arguments.model
    start = Start(model, keras_bert.load(model))
    task = TaggingTask(arguments.data, start, arguments.fill(data.TaggingSettings))
    predictions = arguments.predict_file and predictions_name(arguments.predict_file, "test")
    common_flags.finetune(arguments, task, arguments.choices(task), strategy, '"A text with names."', predictions)


if __name__ == "__main__":
    command.run(__doc__, Arguments, main, check, resumes=True)
