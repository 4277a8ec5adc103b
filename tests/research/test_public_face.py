"""Research is a guest: it imports what any user can import, besides the names in a list, which only gets shorter."""

import ast

import keras_bert
from tests.documents import ROOT

MODULES = ("data", "heads", "layers", "losses", "models", "pretraining", "search", "serving", "tasks", "translation")
PUBLIC = {f"keras_bert.{name}" for name in keras_bert.__all__}
PUBLIC |= {f"keras_bert.{module}.{name}" for module in MODULES for name in getattr(keras_bert, module).__all__}
PRIVATE = {
    "keras_bert.data.squad": "checked_object field",
    "keras_bert.exporting.answerer": "Answerer",
    "keras_bert.checkpoints.loaded": "model_identity",
    "keras_bert.checkpoints.folder": "Folder",
    "keras_bert.checkpoints": "keras_file locations tokenizer_files",
    "keras_bert.corpus": "lines",
    "keras_bert.data.bucketing": "token_batches",
    "keras_bert.data": "sources",
    "keras_bert.runs.finetuning": "Finetuning Plan",
    "keras_bert.runs": "grid",
    "keras_bert.runs.grid": "remove_snapshots",
    "keras_bert.runs.hyperparameters": "Hyperparameters",
    "keras_bert.runs.pretraining": "Objective PretrainingRun PretrainingSettings open_config open_held_out open_phases",
    "keras_bert.runs.unchanged_inputs": "check_unchanged",
    "keras_bert.files": "as_numbers difference file_hash json_text read_json read_lines replacing write_json"
    " write_text",
    "keras_bert.metadata": "Metadata",
    "keras_bert.models.encoder": "run_encoder",
    "keras_bert.reports": "charts page",
    "keras_bert.reports.environment": "environment",
    "keras_bert.tasks.classification": "glue",
    "keras_bert.tasks.classification.leaderboard": "table",
    "keras_bert.tasks.questions": "data",
    "keras_bert.tasks.tagging": "data",
    "keras_bert.text.answer_settings": "checked_labels",
    "keras_bert.text.tokenizer_options": "LONGEST_WORD",
    "keras_bert.training.evaluation": "rows_fingerprint weights_fingerprint",
    "keras_bert.training.progress": "messages track",
    "keras_bert.training.run_state": "Snapshots",
    "pipelines.arguments": "CommandArguments flag",
    "pipelines": "command common_flags run_glue run_pretraining run_squad run_tagging",
    "pipelines.run_glue": "check main",
    "pipelines.run_pretraining": "main",
    "pipelines.run_squad": "check main",
    "pipelines.run_tagging": "main",
}
PRIVATE = {f"{module}.{name}" for module, names in PRIVATE.items() for name in names.split()}


def imported():
    """Returns the names that research imports from the package and its commands, also as attributes of `keras_bert`."""
    found = set()
    for path in (ROOT / "research").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom):
                found |= {f"{node.module}.{name.name}" for name in node.names}
            elif isinstance(node, ast.Import):
                found |= {name.name for name in node.names if "." in name.name}
            elif isinstance(node, ast.Attribute) and ast.unparse(node).startswith("keras_bert."):
                module, _, name = ast.unparse(node).removeprefix("keras_bert.").partition(".")
                found.add(f"keras_bert.{module}.{name}" if name and module in MODULES else f"keras_bert.{module}")
    return {name for name in found if name.startswith(("keras_bert.", "pipelines."))}


def test_research_imports_the_public_face():
    found = imported() - PUBLIC
    assert sorted(found - PRIVATE) == [], "not public: use a public name, or make this one public"
    assert sorted(PRIVATE - found) == [], "no longer imported: remove it from `PRIVATE`"
