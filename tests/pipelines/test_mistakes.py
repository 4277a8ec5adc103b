"""Mistakes in flags: those that contradict each other, and those that would do nothing beside the others."""

import importlib.util

from tests.pipelines.programs import mistake

FILES = {
    "texts.txt": "a b\n",
    "scored.csv": "text,pair,score\na,b,1\nc,d,0\n",
    "pairs.csv": "query,passage\na,b\nc,d\n",
}
GLUE = ["run_glue", "--task=mrpc", "--data_dir=.", "--model=m", "--output_dir=o"]
OWN = ["run_glue", "--task=classification", "--train_file=t.csv", "--folds=2", "--model=m", "--output_dir=o"]
PRETRAINING = ["run_pretraining", "--data=.", "--config=tiny", "--phase=length:8,steps:1,batch:1", "--output_dir=o"]
EMBEDDING = ["run_embedding", "--model=.", "--output_dir=o"]
SCORED, PAIRS = ([*EMBEDDING, f"--train_file={name}.csv", f"--dev_file={name}.csv"] for name in ("scored", "pairs"))
TRANSLATION = ["run_translation", "--output_dir=o"]
TRANSLATION += [f"--{part}_{side}=texts.txt" for part in ("train", "dev") for side in ("source", "target")]


PREDICT, TABLES = ["predict", "--model=.", "a"], "only for rows with columns, --input"
VOCABULARY, CREATION = ["train_vocab", "--input=*.txt", "--output=v"], ["create_pretraining_data", "--input=a"]
CREATION += ["--vocab=v", "--output_dir=o"]
SEARCH, VERIFY = ["search", "--index=i", "--model=."], ["verify_saved_model", "."]
CASES = [
    (PREDICT, "--protocol=grpc", "only with --server"),
    (PREDICT, "--context_file=texts.txt", "only with --question"),
    (["predict", "--model=.", "--input=texts.txt"], "--text_column=a", TABLES),
    (PREDICT, "--pair_column=a", TABLES),
    (PREDICT, "--choice_columns=a", TABLES),
    (["score_squad", "--dev_file=d", "--predictions=p"], "--na_prob_thresh=0.5", "only with --na_prob"),
    (VERIFY, "--pair_column=b", "only with --labelled"),
    ([*VERIFY, "--labelled=."], "--max_drop=1", "only with --reference"),
    ([*VERIFY, "--labelled=.", "--task=mrpc"], "--label_column=a", "only without --task"),
    ([*TRANSLATION, "--vocab=texts.txt"], "--vocab_size=400", "only without --vocab"),
    ([*VOCABULARY, "--held_out=*.txt"], "--held_out_every=3", "only without --held"),
    ([*VOCABULARY, "--reversible"], "--unused=3", "only without --reversible"),
    ([*VOCABULARY, "--reversible"], "--extend=texts.txt", "only without --reversible"),
    ([*VOCABULARY, "--extend=texts.txt"], "--unused=3", "only without --extend"),
    ([*SEARCH, "--input=texts.txt"], "--top=3", "only with queries"),
    ([*SEARCH, "--input=texts.txt"], "--output=o", "only with queries"),
    ([*SEARCH, "--squad=texts.txt"], "--text_column=a", "only without --squad"),
    (GLUE, "--text_column=a", "only for your own table"),
    (GLUE, "--label_column=a", "only for --task=classification, multi_label or regression"),
    (GLUE, "--diagnostics=texts.txt", "only for --task=mnli"),
    (OWN, "--data_dir=.", "only for GLUE"),
    (PRETRAINING, "--eval_examples=3", "only with --eval_data"),
    (PRETRAINING, "--add_words=texts.txt", "only with --model and without --teacher"),
    (CREATION, "--field=a", "only with --format=jsonl"),
    ([*CREATION, "--nonext_sentence"], "--short_seq_prob=0.5", "only with --next_sentence"),
    (SCORED, "--temperature=0.1", "only for the loss in_batch, not for cosine. Received: --temperature=0.1"),
    (PAIRS, "--margin=2", "only for the loss triplet"),
    (PAIRS, "--distance=cosine", "only for the loss triplet"),
    (PAIRS, "--score_range=0,2", "only for pairs with a score"),
]


BOTH = ["create_pretraining_data", "--input=a", "--vocab=v", "--output_dir=data"]
EXPORT = ["export_saved_model", "--model=.", "--output_dir=o"]
CONTRADICTIONS = [
    (["create_pretraining_data", *BOTH[2:]], "--input is required. Received: none"),
    ([*BOTH, "--beam_options=--a=1"], "--beam_options requires --runner. Received: --a=1"),
    ([*BOTH, "--processes=2", "--runner=a"], "--processes cannot be used with --runner. Received: 2"),
    (["train_vocab", "--input=none/*", "--output=out"], "none/*: no file matches"),
    (["train_vocab", "--input=a.txt", "--output=."], ".: is a directory. Expected the name of the vocab.txt to write"),
    (
        [*EXPORT, "--format=onnx", "--precision=float16"],
        "--format=onnx has --precision=float32, int8. Received: float16",
    ),
    ([*EXPORT, "--precision=float16"], "--format=saved_model has --precision=float32, mixed_bfloat16, bfloat16, int8."),
    ([*EXPORT, "--lengths=8"], "--lengths needs --format=litert. Received: --format=saved_model"),
    ([*EXPORT, "--format=litert", "--n_best=3"], "--n_best needs --format=saved_model. Received: --format=litert"),
    (["verify_saved_model"], "expected one or more SavedModel directories"),
    ([*VERIFY, "--labelled=.", "--task=mrcp"], "--task must be one of "),
    ([*VERIFY, "--labelled=none.csv"], "--labelled=none.csv: no such file or folder"),
    ([*VERIFY, "b", "--labelled=."], "--labelled is for one SavedModel. Received: 2 directories"),
]


def test_contradictions(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for (name, *arguments), message in CONTRADICTIONS:
        assert mistake(f"pipelines.{name}", *arguments).startswith(message), message
    assert list(tmp_path.iterdir()) == []


def test_flags_that_would_do_nothing(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name, content in FILES.items():
        (tmp_path / name).write_text(content)
    for (name, *arguments), flag, message in CASES:
        if not importlib.util.find_spec(f"pipelines.{name}"):  # Of a task that was deleted.
            continue
        found = mistake(f"pipelines.{name}", *arguments, flag)
        assert found.startswith(f"{flag.partition('=')[0]}: {message}"), found
