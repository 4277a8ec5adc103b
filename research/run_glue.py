"""Trains the BiLSTM of GLUE's authors, with or without ELMo's features: `pipelines.run_glue` for models without BERT.

    python -m research.run_glue --task=mrpc --data_dir=glue_data --model=bilstm_H-256_E-100 --vocabulary=vocab.txt \\
        --output_dir=runs/bilstm
    python -m research.run_glue --task=mrpc --data_dir=glue_data --model=bilstm --language_model=runs/bilm/model \\
        --output_dir=runs/elmo

`--model` is `bilstm`, of the published sizes, or has sizes in its name: width `H`, layers `L` below the attention, and
width of the token table `E`. `--language_model` is a bilm of `research.run_pretraining`. All else is as in
`pipelines.run_glue`.
"""

from pipelines import command, run_glue
from pipelines.run_glue import check, main
from research.rivals.flags import RATES, NewModels


class Arguments(NewModels, run_glue.Arguments):
    kind = "bilstm"
    wording = run_glue.Arguments.wording | RATES


if __name__ == "__main__":
    command.run(__doc__, Arguments, main, check, resumes=True)
