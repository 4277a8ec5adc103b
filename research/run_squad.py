"""Trains BiDAF on SQuAD, with or without ELMo's features: `pipelines.run_squad` for models without BERT.

    python -m research.run_squad --train_file=train-v1.1.json --dev_file=dev-v1.1.json --model=bidaf \\
        --vocabulary=vocab.txt --output_dir=runs/bidaf

`--model` is `bidaf`, of the published sizes, or has sizes in its name, such as `bidaf_H-64_E-128`. `--language_model`
is a bilm of `research.run_pretraining`. All else is as in `pipelines.run_squad`.
"""

from pipelines import command, run_squad
from pipelines.run_squad import check, main
from research.rivals.flags import RATES, NewModels


class Arguments(NewModels, run_squad.Arguments):
    kind = "bidaf"
    wording = run_squad.Arguments.wording | RATES


if __name__ == "__main__":
    command.run(__doc__, Arguments, main, check, resumes=True)
