"""Pre-training data end to end: speed and peak memory from text files to TFRecords on disk, compared with peers.

    python -m benchmarks.pretraining_data --vocabulary=vocab.txt --text="books/*.txt"

Processes the corpus once and `--copies` times, with one and two processes and dynamic masks; then with static masks and
10 duplicates. Each run is a separate process: "whole" includes its startup and the import of TensorFlow. A tokenizer in
pure Python, and transformers' Rust tokenizer with its masking, are timed in between on a part of the text; they write
no files and no pairs. Takes five minutes. Without the flags it reads from `$KERAS_BERT_DATA`. Peers: `make peers`.
"""

import glob
import json
import os
import pathlib
import resource
import statistics
import subprocess
import sys
import tempfile
import time

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ["TOKENIZERS_PARALLELISM"] = "false"

from absl import app, flags

from benchmarks import contest

_VOCABULARY = flags.DEFINE_string("vocabulary", None, "vocab.txt of an uncased model.")
_TEXT = flags.DEFINE_string("text", None, "Glob pattern of text files, one sentence per line.")
_COPIES = flags.DEFINE_integer("copies", 10, "Number of copies of the text in the large corpus.")
_ROUNDS = flags.DEFINE_integer("rounds", 3, "Rounds to time.")
_JOB = flags.DEFINE_string("job", None, "Internal: the job of a subprocess.")

SAMPLE = {"python": 1_000_000, "transformers": 4_000_000}  # Number of bytes of text that a peer processes.
DUPLICATES = 10


def ours(paths, vocabulary, output, processes, static):
    from keras_bert.pretraining.example_builder import Settings
    from keras_bert.pretraining.generation import generate

    begin = time.perf_counter()
    settings = Settings(static=static, duplicates=DUPLICATES if static else 1)
    manifest = generate(paths, output, vocabulary, settings, workers=processes)
    seconds = time.perf_counter() - begin
    kinds = (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    memory = [resource.getrusage(kind).ru_maxrss / 1024 for kind in kinds]
    return {"seconds": seconds, "tokens": manifest["tokens"], "memory": memory}


def python(paths, vocabulary):
    """Only tokenizes, without pairs, masks and files."""
    from transformers.models.bert.tokenization_bert_legacy import BertTokenizerLegacy

    tokenizer = BertTokenizerLegacy(vocabulary)
    lines = _sample(paths, "python")
    begin = time.perf_counter()
    for line in lines:
        tokenizer.convert_tokens_to_ids(tokenizer.tokenize(line))
    return {"seconds": time.perf_counter() - begin}


def transformers(paths, vocabulary):
    """Tokenizes, splits into rows and masks them, without pairs and files."""
    import transformers as peer

    tokenizer = peer.BertTokenizerFast(vocabulary)
    lines = _sample(paths, "transformers")
    mask = peer.DataCollatorForLanguageModeling(tokenizer, mlm_probability=0.15, return_tensors="np")
    begin = time.perf_counter()
    ids = []
    for row in tokenizer(lines, add_special_tokens=False)["input_ids"]:
        ids.extend(row)
    rows = []
    for at in range(0, len(ids), 126):
        rows.append([tokenizer.cls_token_id, *ids[at : at + 126], tokenizer.sep_token_id])
    for at in range(0, len(rows) - 1, 64):
        mask([{"input_ids": row} for row in rows[at : at + 64] if len(row) == 128])
    return {"seconds": time.perf_counter() - begin}


def _sample(paths, name):
    text = pathlib.Path(paths[0]).read_bytes()[: SAMPLE[name]].decode("utf-8", "ignore")
    return [line for line in text.splitlines() if line]


def run(name, *arguments):
    """Runs a function of this file in a new process and returns its result."""
    begin = time.perf_counter()
    job = json.dumps([name, *arguments])
    command = [sys.executable, "-m", "benchmarks.pretraining_data", f"--job={job}"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{name} failed:\n{done.stderr[-2000:]}")
    return {**json.loads(done.stdout.splitlines()[-1]), "whole": time.perf_counter() - begin}


def main(_):
    if _JOB.value:
        name, *arguments = json.loads(_JOB.value)
        print(json.dumps(globals()[name](*arguments)))
        return
    data = os.environ.get("KERAS_BERT_DATA", "")
    paths = sorted(glob.glob(_TEXT.value or f"{data}/corpus/books/*.txt"))
    vocabulary = _VOCABULARY.value or f"{data}/vocab/bert-base-uncased-vocab.txt"
    megabytes = sum(os.path.getsize(path) for path in paths) / 1e6
    print(f"{contest.machine()}; {megabytes:.1f} MB of text")
    peers = {} if contest.missing(["transformers"]) else {"python": python, "transformers": transformers}
    results = {}
    for _ in range(_ROUNDS.value):
        for name in peers:
            seconds = run(name, paths, vocabulary)["seconds"]
            results.setdefault(name, []).append(SAMPLE[name] / 1e6 / seconds)
        for copies, processes, static in _runs():
            with tempfile.TemporaryDirectory() as folder:
                found = run("ours", _copied(paths, copies, folder), vocabulary, folder, processes, static)
            found["rate"] = megabytes * copies * (DUPLICATES if static else 1) / found["seconds"]
            results.setdefault((copies, processes, static), []).append(found)
    for name in peers:
        print(f"{name:44} {statistics.median(results[name]):6.2f} MB/s")
    for copies, processes, static in _runs():
        _print_ours(results, megabytes, copies, processes, static)


def _runs():
    """Yields the copies of the text, the number of processes, and whether masks are written."""
    for copies in (1, _COPIES.value):
        for processes in (1, 2):
            yield copies, processes, False
    for processes in (1, 2):
        yield 1, processes, True


def _copied(paths, copies, folder):
    """Returns the paths, and links to them under other names."""
    links = []
    for copy in range(1, copies):
        for path in paths:
            links.append(os.path.join(folder, f"{copy}-{os.path.basename(path)}"))
            os.symlink(path, links[-1])
    return paths + links


def _print_ours(results, megabytes, copies, processes, static):
    found = results[copies, processes, static]
    middle = {}
    for key in ("seconds", "whole", "rate", "tokens"):
        middle[key] = statistics.median(one[key] for one in found)
    memory = []  # The most of this process, and of its workers.
    for place in (0, 1):
        memory.append(max(one["memory"][place] for one in found))
    kind = f"static x {DUPLICATES}" if static else "dynamic"
    name = f"{megabytes * copies:.0f} MB, {kind}, {processes} process{'es' if processes > 1 else ''}"
    passes = DUPLICATES if static else 1
    print(
        f"{name:44} {middle['rate']:6.2f} MB/s per pass ({megabytes * copies * passes / middle['whole']:.2f} whole), "
        f"{middle['tokens'] / middle['seconds'] / 1e6:.2f} M tokens/s, {memory[0]:.0f} MB"
        + (f" + {memory[1]:.0f} MB" if processes > 1 else "")
        + "".join(
            f", {name} x {middle['rate'] / statistics.median(results[name]):.1f}"
            for name in ("python", "transformers")
            if name in results
        )
    )


if __name__ == "__main__":
    app.run(main)
