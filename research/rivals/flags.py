"""Flags of the commands that train the models that BERT is compared with."""

import typing

from keras_bert import checkpoints
from pipelines.arguments import CommandArguments, flag
from research.rivals.config import explain_names, is_name, named_rival

RATES = {"rates": "1e-3 for new models"}  # The wording of a default learning rate.


class NewModels(CommandArguments):
    """Flags of new models, of the kind `kind`."""

    kind: typing.ClassVar[str]

    vocab: str = flag(None, "vocab.txt of a new model, such as --model=bilstm.", is_file=True, section="model")
    lowercase: bool = flag(None, "Whether --vocab is uncased; default: judged by its pieces.")
    language_model: str = flag(None, "A bilm of run_pretraining, whose states are features of a new model: ELMo.")
    plugins: list[str] = flag(("research",), "Modules to import first.", section="other")

    def load_options(self, models):
        """Returns options of `load`. Raises if new models and others are mixed, or for one of another kind."""
        flags = {"vocabulary": "vocab", "lowercase": "lowercase", "language_model": "language_model"}
        options = {option: value for option, name in flags.items() if (value := getattr(self, name)) is not None}
        missing = [model for model in models if not checkpoints.find(model)]
        new = [model for model in missing if is_name(model)]
        for model in missing:
            if model not in new and (sentence := explain_names(model)):
                raise ValueError(f"--model={model}: no such model{sentence}")
        if new and len(new) < len(models):
            raise ValueError(f"--model: new models are trained on their own. Received: --model={','.join(models)}")
        if wrong := [model for model in new if named_rival(model, 1).kind != self.kind]:
            expected = f"a {self.kind} for this task, such as {self.kind}_H-256"
            raise ValueError(f"--model must be {expected}. Received: --model={wrong[0]}")
        if new:
            if self.language_model:
                checkpoints.find(self.language_model)
            if not (self.vocab or self.language_model):
                raise ValueError(f"--model={models[0]}: a new model needs --vocab=vocab.txt, or --language_model")
        elif options:
            names = ", ".join(f"--{flags[option]}" for option in options)
            raise ValueError(
                f"{names}: only for new models, such as --model={self.kind}. Received: --model={models[0]}"
            )
        return options
