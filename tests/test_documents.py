"""README and documentation: every code block and notebook is run or checked; links and lists are complete."""

import contextlib
import importlib
import io
import json
import pathlib
import re
import shlex
import sys
import warnings
from unittest import mock

import pytest

import keras_bert
from keras_bert.heads.registry import HEADS
from keras_bert.imports import EXTRA_OF
from keras_bert.tasks.classification.glue import TASKS
from pipelines.__main__ import commands
from tests import documents
from tests.browsers import chromium
from tests.conftest import forgetting_registrations
from tests.pipelines import programs
from tests.tasks.classification import glue_files
from tests.test_face import public_names

ROOT = documents.ROOT
# What the documentation names, and what its blocks are run with instead: small models with random weights, few steps.
BASE = "google-bert/bert-base-uncased"
CASED = "google-bert/bert-base-cased"
COMPACT = "google/bert_uncased_L-4_H-256_A-4"
MINILM = "sentence-transformers/all-MiniLM-L6-v2"
WITH_MINILM = ("embeddings.md", "search.md")  # Their outputs are those of its weights.
ARGUMENTS = {
    "--config=base": "--config=tiny",
    "--student_layers=6": "--student_layers=1",
}
TRANSFORMER = {
    "hidden_size": 32,
    "num_encoder_layers": 1,
    "num_decoder_layers": 1,
    "num_attention_heads": 2,
    "max_position_embeddings": 20,
}
STEPS = re.compile(r"steps:\d+,batch:\d+")
EPOCHS = re.compile(r"\bepochs ?= ?\d+")

_every_page = pytest.mark.parametrize("page", documents.PAGES, ids=documents.name)


def _pages_with(*checks):
    pages = []
    for page in documents.PAGES:
        if any(block.check in checks for block in documents.blocks(page)):
            pages.append(page)
    return pytest.mark.parametrize("page", pages, ids=documents.name)


@pytest.fixture(scope="session")
def small(shared_folder):
    """A folder of models of width 32 with a vocabulary of 8,192 pieces: `pretrained`, and a sentence encoder."""

    def save(folder):
        config = keras_bert.BertConfig(
            vocab_size=8192,
            hidden_size=32,
            num_hidden_layers=2,
            num_attention_heads=2,
            intermediate_size=64,
        )
        vocabulary = ROOT / "saved_models" / "bert_tiny_books" / "vocab.txt"
        encoder = keras_bert.build_encoder(config)
        keras_bert.save(keras_bert.build_pretrainer(encoder), folder / "pretrained", vocabulary)
        keras_bert.save(keras_bert.build_embedder(encoder, normalize=True), folder / "sentences", vocabulary)

    return shared_folder("small_models", save)


@pytest.fixture
def workspace(page, small, minilm, tmp_path, monkeypatch):
    """A working directory with the recipes, in which nothing is downloaded, and where names load small models."""
    folders = dict.fromkeys([BASE, CASED, COMPACT], small / "pretrained")
    if page.name in WITH_MINILM:
        folders[MINILM] = minilm
    else:
        folders[MINILM] = small / "sentences"
    for name, folder in folders.items():
        path = tmp_path / "models" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.symlink_to(folder)
    monkeypatch.setenv("KERAS_BERT_MODELS", str(tmp_path / "models"))
    (tmp_path / "work").mkdir()
    for folder in ("pipelines", "research"):
        (tmp_path / "work" / folder).symlink_to(ROOT / folder)
    (tmp_path / "work" / "transformer.json").write_text(json.dumps(TRANSFORMER))
    monkeypatch.chdir(tmp_path / "work")
    monkeypatch.syspath_prepend(tmp_path / "work")
    yield tmp_path / "work"
    for path in (tmp_path / "work").glob("*.py"):
        sys.modules.pop(path.stem, None)


@_every_page
def test_every_block_has_a_check(page, workspace):
    """Lists the blocks and how each is checked: `pytest tests/test_documents.py -k every_block -rP`."""
    _write_files(page)
    for block in documents.blocks(page):
        sys.stdout.write(f"line {block.line}: {block.language}: {block.check} {block.title or block.mark}\n")
        if block.language == "python":
            compile(block.code, f"{documents.name(page)}:{block.line}", "exec")
        elif block.language == "sh":
            _check_commands(block)
    assert documents.indented(page) == [], "expected code between ``` lines"


@pytest.mark.usefixtures("eager")
@_pages_with("run")
def test_quick_blocks(page, workspace):
    _run(page, {"run"})


@pytest.mark.slow
@pytest.mark.usefixtures("eager")
@_pages_with("run", "run slowly")
def test_pages_as_a_whole(page, workspace, monkeypatch):
    if page.name == "translation.md":  # Models of few steps do not end their translations, here of few tokens.
        monkeypatch.setattr("keras_bert.translation.signature.MOST_EXTRA_TOKENS", 3)
    if page.name == "embeddings.md":  # Only checks the options: an export of MiniLM takes long.
        monkeypatch.setitem(vars(keras_bert), "export", programs.signatures_into({}))
    monkeypatch.setattr("keras_bert.runs.results.export", lambda *_, **options: None)  # Tested by command.
    glue_files.write_task(workspace / "glue_data", TASKS["mrpc"])
    _run(page, {"run", "run slowly"})


def _run(page, checks):
    """Writes the files of a page and runs its blocks with these checks, in one namespace."""
    _write_files(page)
    namespace = {"__name__": "__main__"}
    printed = None
    for block in documents.blocks(page):
        place = f"{documents.name(page)}:{block.line}"
        if block.check == "output" and printed is not None:
            assert printed.split() == block.code.split(), place
        elif block.check in checks:
            printed = _output(block, place, namespace)
        else:
            printed = None


def _output(block, place, namespace):
    """Runs a block and returns what it prints."""
    if block.language == "sh":
        outputs = []
        for words in documents.commands(block.code):
            if words[0] != "make":
                outputs.append(_call(*_shortened(words)))
        return "".join(outputs)
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        exec(compile(block.code, place, "exec"), namespace)
    return printed.getvalue()


def _call(module, *arguments):
    try:
        return programs.call(module, *arguments)
    except SystemExit as ended:
        if ended.code:
            raise
        return ""


def _shortened(words):
    """The module and the arguments of a command, with small sizes."""
    module, arguments = documents.program(words)
    shortened = []
    for argument in arguments:
        if module.endswith("run_translation"):
            argument = argument.replace("--config=tiny", "--config=transformer.json")
        argument = ARGUMENTS.get(argument, argument)
        shortened.append(STEPS.sub("steps:2,batch:2", argument))
    return module, *shortened


def _write_files(page):
    """Writes the files of a page. JSON is parsed: as one value, or line by line."""
    for block in documents.blocks(page):
        if block.check == "file":
            path = pathlib.Path(block.title)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(block.code)
            if block.language == "json" and path.suffix == ".jsonl":
                for line in block.code.splitlines():
                    json.loads(line)
            elif block.language == "json":
                json.loads(block.code)


def _check_commands(block):
    """Checks that commands and their flags, and targets of make, exist; other programs must not be run.

    Lines fit into a page of the site without scrolling.
    """
    assert [line for line in block.code.splitlines() if len(line) > 84] == [], f"line {block.line}"
    targets = re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
    for words in documents.commands(block.code):
        found = documents.program(words)
        if found:
            module, arguments = found
            with _users():
                programs.parsed(module, *arguments)
        elif words[0] == "make":
            assert set(words[1:]) <= set(targets), words
        else:
            assert block.check == "not run", f"line {block.line}: mark it as `not run: reason`: {shlex.join(words)}"


@contextlib.contextmanager
def _users():
    """Plugins are found, and what they register is forgotten."""
    modules = set(sys.modules)
    path = sys.path[:]
    sys.path.append(str(ROOT / "tests" / "extending"))  # After the files of the page.
    try:
        with forgetting_registrations(), mock.patch("keras_bert.pipelines.plugins.LOADED", []):
            yield
    finally:
        sys.path[:] = path
        for name in {"intents_task", "relations_task", "topics_head"} & (set(sys.modules) - modules):
            del sys.modules[name]


@pytest.mark.slow
@pytest.mark.usefixtures("workspace", "eager")
@pytest.mark.parametrize("page", sorted((ROOT / "docs" / "notebooks").glob("*.ipynb")), ids=documents.name)
def test_notebooks(page):
    namespace = {"__name__": "__main__"}
    for number, cell in enumerate(json.loads(page.read_text())["cells"]):
        if cell["cell_type"] == "code":
            code = EPOCHS.sub("epochs = 1", "".join(cell["source"]))
            exec(compile(code, f"{page.name}, cell {number}", "exec"), namespace)


@pytest.mark.slow
def test_the_search_of_a_page_from_a_disk(tmp_path):
    """Its script answers the page, without a worker, which browsers refuse there."""
    (tmp_path / "double.js").write_text("addEventListener('message', (event) => postMessage(2 * event.data));")
    use = """
      const worker = new Worker("double.js");
      worker.addEventListener("message", (event) => { document.title = event.data; });
      worker.postMessage(21);
    """
    script = (ROOT / "docs" / "search_worker.js").read_text()
    (tmp_path / "page.html").write_text(f"<body><script>{script}</script><script>{use}</script>")
    with chromium() as browser:
        page = browser.new_page()
        page.goto((tmp_path / "page.html").as_uri())
        page.wait_for_function("document.title === '42'", timeout=15000)


def test_quoted_messages_exist():
    texts = [path.read_text() for path in _sources("keras_bert", "pipelines")]
    sources = re.sub(r'"\n\s+f?"', "", "\n".join(texts))
    page = (ROOT / "docs" / "guides" / "troubleshooting.md").read_text()
    quoted = []
    for cell in re.findall(r"^\| (`.+?`) \|", page, re.MULTILINE):
        quoted += re.findall("`(.+?)`", cell)
    assert len(quoted) > 30
    assert [text for text in quoted if text not in sources] == []


def _sources(*folders):
    """The files of Python below folders."""
    paths = []
    for folder in folders:
        paths += (ROOT / folder).rglob("*.py")
    return paths


def test_the_reference_has_every_public_name():
    pages = "".join(path.read_text() for path in (ROOT / "docs" / "api").glob("*.md"))
    listed = set(re.findall(r"\bkeras_bert\.([\w.]+)[`,}]", pages))
    assert set(public_names()) - listed == {"__version__"}


def test_the_reference_names_what_exists():
    for path in (ROOT / "docs" / "api").glob("*.md"):
        for name in re.findall(r"^::: ([\w.]+)$", path.read_text(), re.MULTILINE):
            module, _, attribute = name.rpartition(".")
            try:
                assert hasattr(importlib.import_module(module), attribute), f"{path.name}: {name}"
            except ModuleNotFoundError as error:  # Tested where the optional packages are installed.
                if error.name not in EXTRA_OF:
                    raise


def test_commands_are_listed():
    page = (ROOT / "docs" / "guides" / "commands.md").read_text()
    assert set(re.findall(r"^\| `(\w+)` \|", page, re.MULTILINE)) == set(commands())
    guests = {path.stem for path in (ROOT / "research").glob("*.py") if "__main__" in path.read_text()}
    assert set(re.findall(r"^\| `python -m research\.(\w+)` \|", page, re.MULTILINE)) == guests


def test_the_architecture_names_every_file():
    named = set(re.findall(r"\b(\w+\.py)\b", (ROOT / "docs" / "architecture.md").read_text()))
    found = {path.name for path in _sources("keras_bert", "research")} - {"__init__.py", "version.py"}
    elsewhere = {path.name for path in ROOT.glob("*/*.py")}
    assert named - found - elsewhere == set()
    # Folders whose files are not all listed.
    unlisted = {path.name for path in _sources("keras_bert/serving/server", "keras_bert/heads")}
    assert found - named - unlisted == set()


def test_the_table_of_answers_has_every_head():
    page = (ROOT / "docs" / "guides" / "checkpoints.md").read_text()
    table = re.search(r"^\| head \| a text is .*?\n\n", page, re.DOTALL | re.MULTILINE)[0]
    cells = re.findall(r"^\|([^|]+)\|", table, re.MULTILINE)
    named = " ".join(cells).lower().replace("-", "")
    for head in HEADS:
        if type(head).__module__.startswith("keras_bert."):  # Research has more.
            assert head.name.replace("_", " ") in named


def test_every_deviation_is_listed():
    marks = 0
    for path in _sources("keras_bert", "research"):
        marks += path.read_text().count("# Differs from BERT:")
    assert marks == (ROOT / "docs" / "differences.md").read_text().count("\n- ")


@_every_page
def test_links_are_valid(page):
    text = re.sub(r"^```.*?^```$", "", page.read_text(), flags=re.DOTALL | re.MULTILINE)
    for target in re.findall(r"\]\((?!https?:)([^)#]+)", text):
        assert (page.parent / target).exists(), target


@pytest.mark.slow
def test_the_tables_of_checkpoints_are_up_to_date():
    for name in ("torch", "transformers", "sentencepiece"):
        pytest.importorskip(name, reason="a peer, see `make peers`")
    from benchmarks import checkpoints

    assert checkpoints.tables() in checkpoints.PAGE.read_text()
