"""Pre-trains ELMo's language model, in both directions: `pipelines.run_pretraining` for a model without BERT.

    python -m research.run_pretraining --data=data/128 --config=bilm_H-256 --next_sentence=false \\
        --phases=length:128,steps:100000,batch:64 --output_dir=runs/bilm

`--config` is `bilm`, of the published size, or has sizes in its name: width `H` and layers `L`. The records are
those of `create_pretraining_data`, without masks. All else is as in `pipelines.run_pretraining`.
"""

import shlex

from pipelines import command, run_pretraining
from pipelines.run_pretraining import main
from research.rivals.config import named_rival


class Arguments(run_pretraining.Arguments):
    def new_model(self):
        """Returns the `config` of `PretrainingSettings`: that of a bilm."""
        from research.rivals.pretraining import NewLanguageModel

        return NewLanguageModel(self.config)

    def objective(self):
        """Returns the `Objective`: the next and the previous token."""
        from research.rivals.pretraining import LanguageModelObjective

        return self.fill(LanguageModelObjective, masking=None)

    def next_step(self):
        """Returns what trains from the model, and the command."""
        files = "--task=classification --train_file=train.csv --dev_file=dev.csv"
        model = f"--model=bilstm --language_model={shlex.quote(self.output_dir)}/model"
        return "Trains a BiLSTM with its states as features", f"python -m research.run_glue {files} {model}"


def check(arguments):
    """Finds mistakes in flags and paths."""
    model = named_rival(arguments.config or "", 1)
    if model is None or model.kind != "bilm":
        raise ValueError(f"--config must be a bilm, such as bilm_H-256. Received: --config={arguments.config}")
    for name in ("teacher", "pack"):
        if getattr(arguments, name):
            raise ValueError(f"--{name}: not for a bilm. Received: --config={arguments.config}")
    run_pretraining.check(arguments)


if __name__ == "__main__":
    command.run(__doc__, Arguments, main, check, resumes=True)
