"""Flags that would do nothing beside the others are refused."""

import pytest

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


@pytest.mark.parametrize(
    ("arguments", "flag", "message"),
    [
        (["predict", "--model=.", "a"], "--protocol=grpc", "only with --server"),
        (["predict", "--model=.", "a"], "--context_file=texts.txt", "only with --question"),
        (["predict", "--model=.", "--input=texts.txt"], "--text_column=a", "only for tables, --input"),
        (["predict", "--model=.", "a"], "--pair_column=a", "only for tables, --input"),
        (["predict", "--model=.", "a"], "--choice_columns=a", "only for tables, --input"),
        (["score_squad", "--dev_file=d", "--predictions=p"], "--na_prob_thresh=0.5", "only with --na_prob"),
        (["verify_saved_model", "."], "--pair_column=b", "only with --labelled"),
        (["verify_saved_model", ".", "--labelled=."], "--max_drop=1", "only with --reference"),
        (["verify_saved_model", ".", "--labelled=.", "--task=mrpc"], "--label_column=a", "only without --task"),
        (TRANSLATION, "--vocab_size=400", "only without --vocab"),
        (
            ["train_vocab", "--input=*.txt", "--output=v", "--held_out=*.txt"],
            "--held_out_every=3",
            "only without --held",
        ),
        (["train_vocab", "--input=*.txt", "--output=v", "--reversible"], "--unused=3", "only without --reversible"),
        (["search", "--index=i", "--input=texts.txt", "--model=."], "--top=3", "only with queries"),
        (["search", "--index=i", "--input=texts.txt", "--model=."], "--output=o", "only with queries"),
        (["search", "--index=i", "--squad=texts.txt", "--model=."], "--text_column=a", "only without --squad"),
        (GLUE, "--text_column=a", "only for your own table"),
        (GLUE, "--label_column=a", "only for --task=classification, multi_label or regression"),
        (GLUE, "--diagnostics=texts.txt", "only for --task=mnli"),
        (OWN, "--data_dir=.", "only for GLUE"),
        (PRETRAINING, "--eval_examples=3", "only with --eval_data"),
        (
            ["create_pretraining_data", "--input=a", "--vocab=v", "--output_dir=o"],
            "--field=a",
            "only with --format=jsonl",
        ),
        (
            ["create_pretraining_data", "--input=a", "--vocab=v", "--output_dir=o", "--nonext_sentence"],
            "--short_seq_prob=0.5",
            "only with --next_sentence",
        ),
        (SCORED, "--temperature=0.1", "only for the loss in_batch, not for cosine. Received: --temperature=0.1"),
        (PAIRS, "--margin=2", "only for the loss triplet"),
        (PAIRS, "--distance=cosine", "only for the loss triplet"),
        (PAIRS, "--score_range=0,2", "only for pairs with a score"),
    ],
)
def test_flags_that_would_do_nothing(tmp_path, monkeypatch, arguments, flag, message):
    monkeypatch.chdir(tmp_path)
    for name, content in FILES.items():
        (tmp_path / name).write_text(content)
    name, *arguments = arguments
    if flag.startswith("--vocab_size"):
        arguments.append("--vocab=texts.txt")
    found = mistake(f"pipelines.{name}", *arguments, flag)
    assert found.startswith(f"{flag.partition('=')[0]}: {message}"), found
