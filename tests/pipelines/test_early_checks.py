"""Mistakes that commands find before TensorFlow starts."""

import importlib.util
import json
import os
import shlex
import subprocess
import sys

import pytest

from keras_bert.files import one_writer
from pipelines.early_checks import is_first_worker

# Runs commands in one process in which TensorFlow cannot be imported.
RUN = """
import contextlib, io, json, runpy, sys
sys.modules["tensorflow"] = None
for module, *sys.argv[1:] in json.load(sys.stdin):
    printed = io.StringIO()
    sys.stdin = io.TextIOWrapper(io.BytesIO())
    with contextlib.redirect_stderr(printed), contextlib.suppress(SystemExit):
        runpy.run_module(f"pipelines.{module}", run_name="__main__", alter_sys=True)
    print(json.dumps(printed.getvalue()))
"""
QUESTION = {"id": "q1", "question": "c", "answers": [{"text": "a", "answer_start": 0}]}
PARAGRAPH = {"context": "a b", "qas": [QUESTION]}
FILES = {
    "t.csv": "text,label\na,0\nb,1\n",
    "scored.csv": "text,pair,score\na,b,1\nc,d,0\n",
    "pairs.csv": "query,passage\na,b\nc,d\n",
    "passages.jsonl": '{"text": "a"}\n',
    "c.jsonl": '{"text": "a", "choices": ["b", "c"], "label": 0}\n',
    "e.txt": "a O\n",
    "texts.txt": "a\n",
    "latin.txt": "caf\xe9\n",
    "latin.csv": "text\na\ncaf\xe9\n",
    "body.csv": "title,body\na,b\n",
    "empty.txt": "\n",
    "classes/config.json": '{"architectures": ["BertForSequenceClassification"], "keras_bert": {"pair": false}}',
    "asked/config.json": '{"architectures": ["BertForQuestionAnswering"]}',
    "vocab.txt": "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\na\n",
    "rows.jsonl": '{"translation": {"b": "c", "a": "d"}}\n',
    "learned.json": '{"positions": "learned"}',
    "q.json": json.dumps({"version": "1.1", "data": [{"paragraphs": [PARAGRAPH]}]}),
    "list.json": '["a"]',
    "null.json": '{"q1": "a", "q2": null}',
    "odds.json": '{"q1": 0.5}',
    "answers.json": '{"q1": "a"}',
    "adapter/adapter_config.json": "{}",
    "finished/runs/common.json": '{"model": "bert_tiny_books", "sequence_length": 64, "best": true, "later": 1}',
    "trained/runs/common.json": '{"model": "bert_tiny_books", "labels": ["0", "1", "2"], "folds": null}',
    "books/model/config.json": "{}",
    "named/sst2/first/saved_model.pb": "",
    "shelf/versions/2/saved_model.pb": "",
    "shelf/versions/10/saved_model.pb": "",
    "t5/config.json": '{"model_type": "t5", "vocab_size": 8}',
    "folder/a/b": "",
    "indexed/index.json": "{}",
    "models/nli/config.json": "{}",
    "runs/a/model/config.json": "{}",
    "runs/a/saved_model/1/saved_model.pb": "",
    "training/new/model/config.json": "{}",
    "training/new/flags.txt": "",
}
# No data sets on this machine, and a proxy that does not answer.
OFFLINE = {"HF_HUB_OFFLINE": "1", "TFDS_DATA_DIR": "nowhere", "https_proxy": "http://localhost:9"}
BOOKS = "--model=bert_tiny_books"
OUTPUT = "--output_dir=o"
COMMANDS = {
    "glue": f"run_glue --task=classification --train_file=t.csv --dev_file=t.csv {BOOKS} {OUTPUT}",
    "official": f"run_glue --data_dir=folder {BOOKS} {OUTPUT}",
    "pairs": f"run_embedding --train_file=pairs.csv --dev_file=pairs.csv {BOOKS} {OUTPUT}",
    "scored": f"run_embedding --train_file=scored.csv --dev_file=scored.csv {BOOKS} {OUTPUT}",
    "choices": f"run_multiple_choice --train_file=c.jsonl --dev_file=c.jsonl {BOOKS} {OUTPUT}",
    "squad": f"run_squad --train_file=q.json --dev_file=q.json {BOOKS} {OUTPUT}",
    "tagging": f"run_tagging --train_file=e.txt --dev_file=e.txt {BOOKS} {OUTPUT}",
    "translation": f"run_translation --train_source=e.txt --train_target=e.txt --dev_source=e.txt {OUTPUT}",
    "pretraining": f"run_pretraining --data=. --phases=length:8,steps:1,batch:1 {OUTPUT}",
    "creation": f"create_pretraining_data --input=*.txt --vocabulary=vocab.txt {OUTPUT}",
    "vocabulary": "train_vocab --input=*.txt --output=v.txt",
    "predict": f"predict {BOOKS}",
    "search": "search --index=i",
    "export": f"export_saved_model {BOOKS} {OUTPUT}",
    "verify": "verify_saved_model shelf/versions/2",
    "features": f"extract_features {BOOKS} --input=texts.txt --output=o.npz",
    "convert": f"convert_checkpoint {OUTPUT}",
    "attention": f"show_attention {BOOKS}",
    "score": "score_squad --dev_file=q.json --predictions=answers.json",
    "serve": "serve --saved_models=folder --port=0 --grpc_port=0",
}
# Flags that are added to a command, and the beginning of the message.
MISTAKES = """
glue --model=bert_tiny_bookz -> bert_tiny_bookz: no such checkpoint. Did you mean bert_tiny_books? Tried: the path
glue --model=none/at/all --text_column=b -> t.csv:1: no column `b`. It has: 'text', 'label'. Name another one with
predict --model=classes --input=body.csv -> body.csv:1: no column `text`. It has: 'title', 'body'. Name another one with
predict --model=classes --input=t.csv --text_column=b -> t.csv:1: no column `b`. It has: 'text', 'label'. Name another
predict --model=asked --input=t.csv -> t.csv:1: no columns `question` and `context`. It has: 'text', 'label'
predict --model=classes --input=latin.csv -> latin.csv:3: not UTF-8, byte 0xe9 at position 3. Save the file as UTF-8
predict --input=latin.csv -> latin.csv:3: not UTF-8, byte 0xe9 at position 3. Save the file as UTF-8
predict --input=none.csv -> --input=none.csv: no such file
glue --model= -> --model is required for classification: a directory or a name such as google-bert/bert-base-uncased
glue --freeze_layers=5 -> --freeze_layers: expected from 0 to 4, the number of blocks. Received: 5
glue --report_to=wandbb -> --report_to must be one of tensorboard, wandb, mlflow. Received: 'wandbb'
glue --strategy=mirored -> --strategy must be one of auto, one, mirrored, multi_worker, tpu. Received:
glue --sequence_length=600 -> --sequence_length: expected at most 512, the number of positions of bert_tiny_books.
glue --model=books/modle -> books/modle: no such checkpoint. Did you mean books/model? Tried: the path books/modle,
glue --model=./books/modle -> ./books/modle: no such checkpoint. Expected a directory or a .keras file. Did you mean
glue --output_dir=finished -> finished/runs contains runs with other settings: --sequence_length was 64, is 128. Use
glue --output_dir=finished --sequence_length=64 --nobest -> finished/runs contains runs with other settings: --best was
glue --output_dir=trained -> trained/runs contains runs with other settings: `labels` was ['0', '1', '2'], is ['0', '1']
squad --output_dir=finished -> finished/runs contains runs with other settings: --sequence_length was 64, is 384. Use
choices --output_dir=trained --max_train_examples=1 -> this command needs tensorflow
run_glue --task=classification --train_file=t.csv --folds=3 --model=bert_tiny_books --output_dir=o -> --folds must be
glue --train_file=folder -> folder is a folder. Expected a file
glue --output_dir=held -> another run writes to held:
glue --ensemble=1 --threshold=0.5 --folds=3 -> --folds: not with --dev_file. Received: both
run_glue --train_file=t.csv --folds=2 --teacher=bert_tiny_books --output_dir=o --task=regression -> --folds: not with
glue --data_dir=. -> --data_dir: only for GLUE. Received: --data_dir=.
glue --threshold=0.3 -> --threshold: only for --task=multi_label. Received: --threshold=0.3
glue --alpha=0.2 -> --alpha: only with --teacher. Received: --alpha=0.2
glue --unlabeled=t.csv -> --unlabeled: only with --teacher. Received: --unlabeled=t.csv
glue --teacher=./a/b -> ./a/b: no such checkpoint. Expected a directory or a .keras file
glue --pack --language_model_weight=0.5 -> --pack: only for BERT, without --language_model_weight
glue --language_model_weight=0.5 --teacher=bert_tiny_books -> --language_model_weight: only without --teacher.
glue --task=multi_label --language_model_weight=0.5 -> --language_model_weight: only without --task=multi_label.
glue --init_from=mnli -> --init_from=mnli must be a task of this run or a folder. Received: --task=classification
glue --lora_rank=2 --model=adapter -> --lora_rank starts from a whole model, such as model/ beside adapter/. Received:
glue --lora_rank=2 --freeze_layers=1 -> --freeze_layers: not with --lora_rank, which freezes the whole encoder.
glue --lora_rank=2 --student_layers=1 -> --student_layers: not with --lora_rank, whose adapter needs the whole model.
glue --lora_rank=2 --lora_alpha=0 -> --lora_alpha must be above 0. Received: --lora_alpha=0
glue --lora_alpha=3 -> --lora_alpha: only with --lora_rank. Received: --lora_alpha=3
glue --pack --group_by_length -> --group_by_length: not with --pack, whose rows have one length. Received: both
official --task=sst -> --task must be one or more of cola, sst2, mrpc, stsb, qqp, mnli, qnli, rte, wnli; all; or one of
official --task= -> --task is required: Task(s): cola, sst2, mrpc, stsb, qqp, mnli, qnli, rte, wnli; all; or
run_glue --task=mrpc --model=bert_tiny_books --output_dir=o -> glue/mrpc is not on this machine, and https://dl.fba
official --task=wnli,wnli -> --task contains duplicates. Received: --task=wnli,wnli
official --task=cola -> --data_dir has no train.tsv of cola: neither folder/CoLA/train.tsv nor folder/train.tsv.
official --task=wnli --folds=3 -> --folds: only for --task=classification, multi_label or regression.
official --task=wnli --train_file=a.csv -> --train_file: only for --task=classification, multi_label or regression.
official --task=wnli --text_column=a -> --text_column: only for your own table. Received: --text_column=a
official --task=wnli --label_column=a -> --label_column: only for --task=classification, multi_label or regression.
official --task=wnli --diagnostics=t.csv -> --diagnostics: only for --task=mnli. Received: --diagnostics=t.csv
official --task=wnli,rte --language_model_weight=0 --teacher=folder -> --teacher must have a model for each of several
official --task=wnli,rte --teacher=bert_tiny_books --unlabeled=t.csv -> --unlabeled: only for one --task. Received:
official --task=wnli --teacher=bert_tiny_books --unlabeled=t.csv -> --unlabeled for --task=wnli: expected
pretraining --config=tinny -> unknown size name 'tinny'. Expected one of tiny, mini, small, medium, base, large,
pretraining --config=tiny --phases=128x1000 -> --phases must look like length:128,steps:90000,batch:256. Received:
pretraining --config=tiny --eval_examples=3 -> --eval_examples: only with --eval_data. Received: --eval_examples=3
pretraining --config=tiny --add_words=texts.txt -> --add_words: only with --model and without --teacher. Received:
pretraining --config=tiny --student_layers=1 -> --student_layers: only with --model or --teacher. Received:
pretraining --pack --teacher=bert_tiny_books -> --pack: not with --teacher. Received: both
pretraining --model=bert_tiny_books --positions=none -> --positions: only with --config. Received:
pretraining --model=bert_tiny_books --phases=length:600,steps:1,batch:1 -> --phases: expected at most 512, the number of
pretraining --model=bert_tiny_books --output_dir=held -> another run writes to held:
pairs --dev_file=scored.csv -> --dev_file must be like --train_file, pairs. Received: scored.csv, scored
pairs --loss=cosine -> the loss of pairs data must be in_batch. Received: loss='cosine'
pairs --ensemble=2 -> --ensemble: sentence encoders have none. Received: --ensemble=2
pairs --lora_rank=2 -> --lora_rank: sentence encoders are trained whole. Expected no --lora_rank
pairs --lora_alpha=3 -> --lora_alpha: sentence encoders are trained whole. Expected no --lora_alpha
pairs --batch_size=32,1 -> --batch_size must be at least 2: the negatives of a pair are the others of its batch.
pairs --max_train_examples=1 -> pairs.csv: expected at least 2 pairs: the negatives of a pair are those of others
pairs --margin=2 -> --margin: only for the loss triplet, not for in_batch. Received: --margin=2
pairs --score_range=0,2 -> --score_range: only for pairs with a score. Received: --score_range=0,2
scored --score_range=5,1 -> --score_range must be LOWEST,HIGHEST. Received: --score_range=5,1
scored --temperature=0.1 -> --temperature: only for the loss in_batch, not for cosine. Received: --temperature=0.1
choices --predict_file=folder -> --predict_file=folder is a folder. Expected a file
choices --predict_file=none -> --predict_file=none: no such file
squad --model=bert --dev_file=b -> --dev_file=b: no such file
squad --model=bert,a/bert -> --model must be a directory or a name such as google-bert/bert-base-uncased, or several
tagging --scheme=foo -> --scheme must be one of iob1, iob2, iobes, bilou, bmes, io, words. Received: --scheme=foo
translation -> --dev_target is required: the translations of --dev_source. See --help
translation --vocabulary=vocab.txt --vocab_size=400 -> --vocab_size: not with --vocabulary. Received: both
translation --test_target=e.txt -> --test_target: only with --test_source. Received: --test_target=e.txt
translation --config=huge -> --config must be one of tiny, mini, small, base, big, or a JSON file. Received: huge
translation --config=folder -> --config must be a JSON file. Received: the folder folder
translation --config=none.json -> --config: no such file: none.json
translation --train_target=vocab.txt -> parallel files must have the same number of lines. Received: e.txt has 1,
translation --dev_source=rows.jsonl --dev_target=e.txt -> rows.jsonl: its rows have the translations. Expected no other
translation --config=learned.json -> Marian's layout has no place for positions='learned'
translation --languages=a,b -> --languages are those of rows such as {"translation": {"a": ...}}. Received: e.txt,
translation --epochs=3,0 -> --epochs must be an integer of at least 1, or several separated by commas. Received:
creation --field=a -> --field: only with --format=jsonl. Received: --field=a
creation --nonext_sentence --short_seq_prob=0.5 -> --short_seq_prob: only with --next_sentence. Received:
creation --processes=2 --runner=a -> --processes: not with --runner. Received: both
creation --vocabulary=none -> --vocabulary=none: no such file
create_pretraining_data --output_dir=o -> --input is required. Received: none
vocabulary --input=none/* -> none/*: no file matches
vocabulary --output=. -> --output must be a file. Received: the folder .
vocabulary --reversible --strip_accents -> --reversible keeps case and accents. Remove --lowercase and --strip_accents
vocabulary --extend=vocab.txt --nolowercase -> --extend: vocab.txt is uncased. Expected --lowercase
predict --plugins=no_module a -> --plugins must be modules that Python finds. Received: --plugins=no_module
predict --model=bert_tiny_bookz a -> bert_tiny_bookz: no such checkpoint. Did you mean bert_tiny_books? Tried: the path
predict --context_file=texts.txt a -> --context_file: only with --question. Received: --context_file=texts.txt
predict --input=texts.txt --text_column=a -> --text_column: only for rows with columns, --input with .csv, .tsv,
predict --multi_label a -> --multi_label: only with --candidate_labels. Received: --multi_label
predict --candidate_labels=a b -> --candidate_labels must be at least 2 labels: a single one always has the probability
predict --candidate_labels=a, b -> --candidate_labels must be different labels, none empty. Received: 'a,'
predict --candidate_labels=a,b --n_best=3 b -> --n_best: not with --candidate_labels. Received: both
predict --server=localhost:1 --beam_size=2 a -> --beam_size: only without --server, whose models were exported with
predict --output=a.xlsx a -> --output must end in .csv, .tsv or .jsonl. Received: a.xlsx
predict --input=texts.txt --output=texts.txt -> --output must be another file than that of the texts. Received:
predict --input=none.tsv -> --input=none.tsv: no such file
predict -> standard input: there is no text
predict --question=a --context_file=latin.txt -> latin.txt:1: not UTF-8, byte 0xe9 at position 3. Save the file as UTF-8
predict --question=a --context_file=texts.txt b -> --question takes one context: an argument, --context_file or the
predict --question= b -> --question and its context must not be empty
search -> expected --input=FILE to build the index, --query or --queries to search it, or --add or --remove to change
search --add=passages.jsonl --remove=a -> --remove: not with --add. Received: both
search --add=passages.jsonl --input=passages.jsonl -> --add: not with --input. Received: both
search --add=passages.jsonl -> i: no index, index.json is missing. Build it first
search --remove=a --approximate -> --approximate: only for building an index, with --input or --squad. Received:
search --query= -> --query must not be empty
search --queries=empty.txt -> empty.txt: there is no query
search --input=passages.jsonl -> --model is required to build an index: a directory or a name of a sentence encoder
search --input=none -> --input=none: no such file
search --query=a --dtype=int8 -> --dtype: only for building an index, with --input or --squad. Received: --dtype=int8
search --query=a --queries=texts.txt -> --queries: not with --query. Received: both
search --query=a --rerank=bert_tiny_books --rerank_top=5 -> --rerank_top must be at least 10 here. Received:
search --input=passages.jsonl --n_best=3 -> --n_best: only with --query or --queries or --squad. Received: --n_best=3
search --squad=texts.txt --query=a -> --squad: not with --query. Received: both
export --format=onnx --precision=float16 -> --format=onnx has --precision=float32, int8. Received: float16
export --precision=float16 -> --format=saved_model has --precision=float32, mixed_bfloat16, bfloat16, int8. Received:
export --lengths=8 -> --lengths: only with --format=litert. Received: --lengths=8
export --format=litert --n_best=3 -> --n_best: only with --format=saved_model. Received: --n_best=3
export --output_dir=t.csv/1 -> --output_dir must be a folder to which files can be written. Received:
verify_saved_model -> expected one or more SavedModel directories
verify_saved_model none/1 -> none/1: no such folder. Expected a SavedModel, such as saved_models/sst2/1
verify_saved_model t.csv -> t.csv is a file. Expected the folder of a SavedModel, such as saved_models/sst2/1
verify_saved_model shelf/versions -> shelf/versions is no SavedModel, it has no saved_model.pb. Did you mean shelf/v
verify_saved_model runs/a -> runs/a is no SavedModel, it has no saved_model.pb. Did you mean runs/a/saved_model/1?
verify_saved_model folder -> folder is no SavedModel, it has no saved_model.pb. Expected the folder of one version,
verify --labeled=t.csv --reference=none -> none: no such folder. Expected a SavedModel, such as saved_models/sst2/1
verify --labeled=. --task=mrcp -> --task must be one of cola, sst2, mrpc, stsb, qqp, mnli, mnli_mismatched, qnli, rte,
verify --labeled=none.csv -> --labeled=none.csv: no such file or folder
verify shelf/versions/10 --labeled=. -> --labeled is for one SavedModel. Received: 2 directories
verify --pair_column=b -> --pair_column: only with --labeled. Received: --pair_column=b
verify --labeled=. --task=mrpc --label_column=a -> --label_column: only without --task. Received: --label_column=a
features --sequence_length=513 -> --sequence_length: expected at most 512, the number of positions of bert_tiny_books.
features --output=o.csv -> --output must end in .npz or .jsonl. Received: o.csv
features --input=empty.txt -> empty.txt: there is no text
convert --model=t5 -> t5/config.json: `model_type` must be one of bert, distilbert, electra, roberta, xlm-roberta,
attention a --output=t.csv/a.html -> --output must be in a folder to which files can be written. Received:
attention -> expected a text, or a text and its pair, as arguments. Received: 0 arguments
score --dev_file=none -> none: no such file
score --predictions=list.json -> list.json: expected an object with a string for each id. Received: ['a']
score --predictions=null.json -> null.json: expected an object with a string for each id. Received: {'q2': None}
score --na_prob=answers.json -> answers.json: expected an object with a number for each id. Received: {'q1': 'a'}
score --na_prob=odds.json -> `no_answer` is for SQuAD 2.0
serve --saved_models=runs/a/model -> --saved_models=runs/a/model is a checkpoint. Did you mean --saved_models=runs/a?
serve --saved_models=runs/a/saved_model -> --saved_models=runs/a/saved_model is one model. Did you mean --saved_models=
serve --saved_models=indexed -> --saved_models=indexed is a search index. Expected a folder of <model>/<version number>/
serve --saved_models=named -> --saved_models=named is no folder of models: it has named/sst2/first/saved_model.pb, and
serve --saved_models=models/nli -> --saved_models=models/nli is a checkpoint. Export it with `
serve --saved_models=models -> --saved_models=models is a folder of checkpoints. Export it with `
serve --saved_models=runs -> this command needs tensorflow
serve --saved_models=runs/a -> this command needs tensorflow
serve --saved_models=training/new -> this command needs tensorflow
serve --host=192.0.2.1 --port=1 -> cannot listen at 192.0.2.1:1: Cannot assign requested address. Change --host or
"""


def write_files(folder):
    for name, content in FILES.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content, "latin-1")


def cases():
    """Returns command lines of modules that there are, and the beginnings of the messages."""
    pairs = []
    for line in MISTAKES.strip().splitlines():
        given, message = line.split(" -> ")
        name, _, flags = given.partition(" ")
        command = COMMANDS.get(name, name).split() + shlex.split(flags)
        if importlib.util.find_spec(f"pipelines.{command[0]}"):  # Not of a task that was deleted.
            pairs.append((command, message))
    return pairs


def errors_of(commands, folder):
    """Runs commands in a folder without TensorFlow; returns what each writes to standard error."""
    environment = os.environ | OFFLINE
    environment |= {"PYTHONPATH": os.getcwd(), "HF_HOME": str(folder / "hub")}
    done = subprocess.run(
        [sys.executable, "-c", RUN],
        input=json.dumps(commands),
        capture_output=True,
        text=True,
        check=False,
        cwd=folder,
        env=environment,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return list(map(json.loads, done.stdout.splitlines()))


def test_mistakes_are_found_without_tensorflow(tmp_path):
    """Nothing is written, either."""
    write_files(tmp_path)
    commands, messages = zip(*cases(), strict=True)
    with one_writer(tmp_path / "held"):
        errors = errors_of(commands, tmp_path)
    wrong = []
    for command, message, error in zip(commands, messages, errors, strict=True):
        if not error.startswith(f"error: {message}"):
            wrong.append((command, message, error))
    assert wrong == []
    given = {name.split("/")[0] for name in FILES}
    left = {path.name for path in tmp_path.iterdir()}
    assert left - {"hub"} == given | {"held"}
    assert [path.name for path in (tmp_path / "held").iterdir()] == [".lock"]


def worker(index):
    """Returns TF_CONFIG of one of two workers."""
    task = {"type": "worker", "index": index}
    return json.dumps({"cluster": {"worker": ["a:1", "b:1"]}, "task": task})


@pytest.mark.parametrize(
    ("text", "is_first"),
    [("", True), ("{", True), (worker(0), True), (worker(1), False)],
)
def test_one_of_several_workers_writes(monkeypatch, text, is_first):
    monkeypatch.setenv("TF_CONFIG", text)
    assert is_first_worker() == is_first
