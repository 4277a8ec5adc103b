"""Trains a tagger on features of a frozen BERT (section 5.3), and keeps the best model on dev.

    python -m research.run_feature_tagging --train_file=eng.train --dev_file=eng.testa --predict_file=eng.testb \\
        --model=google-bert/bert-base-cased --features=last,concat_last_four --output_dir=runs/ner_features

A BiLSTM of two layers reads hidden states of the encoder, which are computed once for all runs and kept in `features/`
of the output. Files and results are those of `pipelines.run_tagging`. `research/feature_tagging/conll2003.txt` is the
flagfile of the paper's table 7.
"""

import keras_bert
from pipelines import command, run_tagging
from pipelines.arguments import flag
from pipelines.run_tagging import main

FEATURES = ("embeddings", "second_to_last", "last", "sum_last_four", "concat_last_four", "sum_all")


class Arguments(run_tagging.Arguments):
    wording = run_tagging.Arguments.wording | {"rates": "1e-3", "epochs": "20"}

    features: list[str] = flag(
        ("concat_last_four",),
        f"Hidden states that it reads; a grid of {', '.join(FEATURES)}.",
        section="model",
    )
    feature_dtype: str = flag("float16", "Type of the stored features.", values=["float16", "float32"])
    plugins: list[str] = flag(("research.feature_tagging",), "Modules to import first.", section="other")

    def create_task(self):
        """Returns the task, whose features are kept beside its runs."""
        from research.feature_tagging.task import BiLSTMSettings, FeatureTaggingTask

        start = keras_bert.tasks.Start(self.model, keras_bert.load(self.model), keras_bert.load)
        bilstm = BiLSTMSettings(self.feature_dtype)
        return FeatureTaggingTask(self.data, start, self.settings, self.output / "features", bilstm)

    def choices(self, task):
        """Returns the grid of the runs, with the features first."""
        return {"features": self.features} | super().choices(task)


def check(arguments):
    """Finds mistakes in flags and files."""
    for name in arguments.features:
        if name not in FEATURES:
            raise ValueError(f"--features must be one or more of {', '.join(FEATURES)}. Received: {name}")
    if len(set(arguments.features)) < len(arguments.features):
        raise ValueError(f"--features contains duplicates. Received: {','.join(arguments.features)}")
    for name in ("freeze_layers", "layer_decay", "lora_rank"):
        if getattr(arguments, name) is not None:
            raise ValueError(f"--{name} is only for fine-tuning: here no layer of BERT is trained")
    run_tagging.check(arguments)


if __name__ == "__main__":
    command.run(__doc__, Arguments, main, check, resumes=True)
