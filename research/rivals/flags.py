"""Flags of the commands that train the models that BERT is compared with."""

import typing

from keras_bert import checkpoints
from pipelines.arguments import CommandArguments, flag
from research.rivals.config import explain_names, is_name, named_rival

RATES = {"rates": "1e-3 for new models"}  # The wording of a default learning rate.
# Of `load`, by the flags that set them.


class NewModels(CommandArguments):
    """Flags of new models, of the kind `kind`."""

    kind: typing.ClassVar[str]

    vocabulary: str = flag(None, "vocab.txt of a new model, such as --model=bilstm.", is_file=True, section="model")
    lowercase: bool = flag(None, "Whether --vocabulary is uncased; default: judged by its pieces.")
    language_model: str = flag(None, "A bilm of run_pretraining, whose states are features of a new model: ELMo.")
    plugins: list[str] = flag(("research",), "Modules to import first.", section="other")

    def load_options(self, models):
        """Returns options of `load`. Raises if new models and others are mixed, or for one of another kind."""
        given = self.values("vocabulary", "lowercase", "language_model")
        new_models = self._new_models(models)
        if new_models and len(new_models) < len(models):
            raise ValueError(f"--model: new models are trained on their own. Received: --model={','.join(models)}")
        for model in new_models:
            if named_rival(model, 1).kind != self.kind:
                expected = f"a {self.kind} for this task, such as {self.kind}_H-256"
                raise ValueError(f"--model must be {expected}. Received: --model={model}")
        if new_models:
            if self.language_model:
                checkpoints.find(self.language_model)  # Raises an error for a path that is not there.
            if not (self.vocabulary or self.language_model):
                raise ValueError(f"--model={models[0]}: a new model needs --vocabulary=vocab.txt, or --language_model")
        elif given:
            names = ", ".join(f"--{name}" for name in given)
            raise ValueError(
                f"{names}: only for new models, such as --model={self.kind}. Received: --model={models[0]}"
            )
        return given

    @staticmethod
    def _new_models(models):
        """Returns those that are names of new models; raises an error for what resembles such a name."""
        new_models = []
        for model in models:
            if checkpoints.find(model):
                continue
            if is_name(model):
                new_models.append(model)
            else:
                sentence = explain_names(model)
                if sentence:
                    raise ValueError(f"--model={model}: no such model{sentence}")
        return new_models
