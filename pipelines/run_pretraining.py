"""Pre-trains BERT: masked LM and next sentence prediction, in phases.

    python -m pipelines.create_pretraining_data --input="corpus/*.txt" --vocabulary=vocab.txt --output_dir=data/128
    python -m pipelines.run_pretraining --data=data/128 --config=tiny --phases=length:128,steps:100000,batch:64 \\
        --output_dir=runs/tiny --eval_data=data/held_out

Each phase uses the `--data` folder with its sequence length; optimizer state and schedule carry over between phases.
The same command resumes an interrupted run exactly. With more steps in the last one of `--phases`, or more phases, it
extends a finished run: weights and moments carry over, and the new steps have their own warmup and decay, from
`--learning_rate` and `--warmup`. `--output_dir` contains `report.html`, `flags.txt` (for `--flagfile`),
`metrics.jsonl`, TensorBoard events, snapshots, and `model/` as of the last snapshot, which `keras_bert.load` and
transformers can load. With `KERAS_BACKEND=jax`, Keras' `fit` trains on JAX, on all devices; TensorFlow reads the
records. On two cores, a model of 2 layers, width 128, processes 45,000 tokens per second, or 59,000 with
`--precision=mixed_bfloat16`; one of 4 layers, width 256, processes 10,500 or 15,000.
"""

import os
import pathlib
import shlex
import typing

from keras_bert.corpus import lines
from keras_bert.files import write_text
from keras_bert.runs.hyperparameters import PretrainingHyperparameters

from . import command, common_flags
from .arguments import flag


class Arguments(common_flags.Distillation, PretrainingHyperparameters, common_flags.Training):
    wording: typing.ClassVar = {
        "teacher": "a pre-trained model with the vocabulary of --data; the default of --model without --config"
    }

    data: list[str] = flag(
        None, "Folder(s) of create_pretraining_data, or glob patterns.", required=True, section="data"
    )
    eval_data: str = flag(None, "Folder or glob pattern of the data to evaluate on.")
    eval_examples: int = flag(2000, "Maximum number of examples to evaluate on.", least=1, needs="eval_data")
    vocabulary: str = flag(None, "vocab.txt for records without one.", is_file=True)
    lowercase: bool = flag(True, "Whether --vocabulary is uncased.")
    config: str = flag(None, "Size: tiny ... large, L-4_H-256; or a config file.", section="model")
    model: str = flag(None, "Directory or name of a model to start from, instead of --config.")
    add_words: str = flag(
        None, "File of words to add to --model, one per line, as in create_pretraining_data.", is_file=True
    )
    phases: list[str] = flag(
        None, "length:128,steps:90000,batch:256; repeatable.", required=True, repeatable=True, section="training"
    )
    next_sentence: bool = flag(True, "Whether to train next sentence prediction.")
    causal: bool = flag(False, "Trains a left-to-right language model instead of a masked one.")

    @property
    def phase_settings(self):
        """The phases, dicts with `length`, `steps` and `batch`."""
        return common_flags.phase_settings(self.phases)

    @property
    def start(self):
        """The model to start from, `None` for new weights."""
        if self.model:
            return self.model
        return None if self.config else self.teacher

    @property
    def models(self):
        """The models that exist before the run."""
        different = dict.fromkeys([self.start, self.teacher])
        return [model for model in different if model]

    def new_model(self):
        """Returns the `config` of `PretrainingSettings`, which differs for other models, as does the objective."""
        return self.config

    def objective(self):
        """Returns the `Objective`."""
        from keras_bert.runs.pretraining import Objective

        return self.fill(Objective, masking=None)

    def next_step(self):
        """Returns what trains from the model, and the command."""
        files = "--task=classification --train_file=train.csv --dev_file=dev.csv"
        model = f"--model={shlex.quote(self.output_dir)}/model"
        return "Fine-tunes it", f"{command.spelling('run_glue')} {files} {model}"

    @property
    def sources(self):
        """The data to train on and, if there is any, the data to evaluate on."""
        if self.eval_data:
            return [*self.data, self.eval_data]
        return list(self.data)


def check(arguments):
    _ = arguments.phase_settings
    for source in arguments.sources:
        if not pathlib.Path(source).is_dir():
            lines.find(source)
    arguments.only(arguments.model and not arguments.teacher, "with --model and without --teacher", "add_words")
    if arguments.student_layers and not arguments.start:
        raise ValueError(f"--student_layers: only with --model or --teacher. Received: --config={arguments.config}")
    if _backend() not in ("tensorflow", "jax"):
        raise ValueError(f"KERAS_BACKEND: expected tensorflow or jax. Received: {_backend()}")
    if _backend() == "jax" and "strategy" in arguments.given:
        raise ValueError("--strategy: only on TensorFlow. JAX trains on all devices. Received: KERAS_BACKEND=jax")


def main(arguments):
    os.environ.setdefault("JAX_CPU_ENABLE_ASYNC_DISPATCH", "false")  # Steps on several virtual CPUs block each other.
    import tensorflow as tf

    from keras_bert.runs import pretraining_records, pretraining_report
    from keras_bert.training.distribution import is_chief

    if _backend() == "jax":
        tf.config.set_visible_devices([], "GPU")  # TensorFlow only reads, and leaves the memory to JAX.
        strategy = None
    else:
        strategy = arguments.create_strategy()
    run = _create_run(arguments, strategy)
    flags_file = arguments.output / "flags.txt"
    if is_chief(strategy) and not flags_file.exists():
        write_text(flags_file, arguments.flagfile)
    try:
        results = run.fit()
    except tf.errors.DataLossError as error:
        raise pretraining_records.located(error, arguments.sources) from None
    text_to_fill = arguments.eval_data or arguments.data[0]
    steps = _next_steps(arguments)
    pretraining_report.report(run, results, text_to_fill, steps)
    if is_chief(strategy):
        run.save()
        # Not before the end of an extension: until then, the same command with this --flagfile resumes it.
        write_text(flags_file, arguments.flagfile)
        print(f"report:       {arguments.output / 'report.html'}")
        print(f"model:        {arguments.output / 'model'}")
        for what, line in steps:
            command.print_next(line, what)


def _create_run(arguments, strategy):
    """Opens the records and returns the `PretrainingRun`."""
    from keras_bert.runs import pretraining, pretraining_records

    phases = arguments.phase_settings
    objective = arguments.objective()
    settings = arguments.fill(
        pretraining.PretrainingSettings,
        phases=phases,
        objective=objective,
        model=arguments.start,
        config=arguments.new_model(),
        add_words=common_flags.words(arguments.add_words),
    )
    records = pretraining_records.open_phases(
        phases,
        arguments.data,
        objective,
        vocabulary=arguments.vocabulary,
        seed=arguments.seed,
        pack=arguments.pack,
    )
    eval_data = None
    if arguments.eval_data:
        eval_data = pretraining_records.open_eval_data(
            arguments.eval_data,
            records[0],
            objective,
            vocabulary=arguments.vocabulary,
            examples=arguments.eval_examples,
        )
    return pretraining.PretrainingRun(
        settings,
        records,
        arguments.output,
        eval_data=eval_data,
        strategy=strategy,
        report_to=arguments.report_to,
        lowercase=arguments.lowercase,
    )


def _backend():
    return os.environ.get("KERAS_BACKEND", "tensorflow")


def _next_steps(arguments):
    """Returns the next steps: what they do, and a command."""
    output = shlex.quote(arguments.output_dir)
    what, tune = arguments.next_step()
    finetuning = (
        f"{what} on your own table with the columns text and label.",
        f"{tune} --output_dir={output}_tuned",
    )
    extend = f"{command.spelling('run_pretraining')} --flagfile={output}/flags.txt"
    extension = (
        "Continues pre-training, with as many steps again in a new phase.",
        f"{extend} --phases={arguments.phases[-1]}",
    )
    return [finetuning, extension]


if __name__ == "__main__":
    command.run(__doc__, Arguments, main, check, resumes=True)
