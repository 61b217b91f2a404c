# Everything starts here; each target sets up what it needs.
#
#   make check   judge torch's own encoders, and print the report
#   make test    run the tests of each room and judge one encoder of each kind; takes about two minutes
#   make test-all   run every test: the whole zoo, the site in a browser, the released form
#   make docs    build the site into site/, strictly
#   make serve   show the site while you write
#   make lint    ruff, mypy, unused code, the imports between rooms, and the words
#   make bench   measure ratios, side by side in one run, and put them on file; ARGS=--large measures large encoders too
#   make bench-guard   compare the ratios that take seconds with the version on file; fails if one grew by a third
#   make matrix  run every deviation as a subject, and put on file what notices it
#   make resolution   measure which deviations each precision can tell from rounding, and put it on file
#   make catalogue   put on file what the lists of the command line show
#   make mutants   change the equations in one place after the other, and put on file which test notices it
#   make room-mutants   change a sample of places of the suite's rooms, and put on file which fast test notices it
#   make seeds   judge correct encoders with many seeds, and put on file how near they come to an alarm
#   make frameworks   judge the encoders of every framework in an environment of its own, and put it on file
#   make setup   create .venv; the second time it takes no time
#   make coverage   run the whole test suite, and show which lines no test reaches
#   make wheel   build the distribution, and judge with it alone, the sources out of the way
#   make release VERSION=x.y.z   write the changelog, set the version, commit and tag; DRY_RUN=1 shows what it would do
#
# With TORCH=2.5.0 or TORCH=newest a target runs in a separate environment with that torch in the place of the
# pinned one; ARGS is handed to pytest, as in make test-all ARGS="--splits 4 --group 1", or to the benchmarks.

# Every test of a command starts an interpreter, which would compile torch and SymPy anew where this is set.
export PYTHONDONTWRITEBYTECODE :=

PYTHON ?= python3
TORCH ?=
VENV := .venv$(addprefix -torch-,$(TORCH))
BIN := $(VENV)/bin
READY := $(VENV)/.ready
CONSTRAINTS := $(if $(TORCH),$(VENV)/constraints.txt,constraints.txt)

FRAMEWORKS := .venv-frameworks/bin
FRAMEWORKS_READY := .venv-frameworks/.ready

.PHONY: setup check test test-all coverage docs serve lint bench bench-guard matrix resolution catalogue mutants room-mutants seeds frameworks wheel release
.DEFAULT_GOAL := setup

setup: $(READY)

$(READY): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
		|| { echo "encoder-spec needs Python 3.11 or newer: make PYTHON=python3.11"; exit 1; }
	$(PYTHON) -m venv $(VENV)
	@# Some torch asks for one release of SymPy, so with another torch than the pinned one neither is pinned.
	$(if $(TORCH),grep -vE '^(torch|sympy)==' constraints.txt > $(CONSTRAINTS))
	$(if $(filter-out newest,$(TORCH)),echo 'torch==$(TORCH)' >> $(CONSTRAINTS))
	@# Compiling is left to the first import: most modules of torch and transformers are never imported.
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile --constraint $(CONSTRAINTS) --editable '.[dev,docs,onnx,transformers]'
	@touch $@

check: $(READY)
	@$(BIN)/encoder-spec check torch-post-ln torch-pre-ln reference

# In the order of conftest.py, which begins with the longest files; the runner would begin with those of most tests.
# A worker that dies ends the run, with the name of its test: with files handed out whole, xdist waits for ever for one
# that it has started again.
PYTEST := $(BIN)/python -m pytest --numprocesses auto --dist loadfile --no-loadscope-reorder --max-worker-restart 0

test: $(READY)
	$(PYTEST) -m "not thorough" $(ARGS)

test-all: $(READY)
	$(PYTEST) $(ARGS)

coverage: $(READY)
	$(PYTEST) --cov --cov-report=term --cov-report=xml $(ARGS)

# From an empty folder, in an environment with nothing but the wheel and what it requires. Both lie outside the
# repository, whose conftest.py pytest would find otherwise.
wheel: $(READY)
	rm -rf dist
	$(BIN)/python -m build --no-isolation
	set -e; wheel="$(CURDIR)/$$(echo dist/*.whl)"; constraints="$(abspath $(CONSTRAINTS))"; \
		away="$$(mktemp -d)"; trap 'rm -rf "$$away"' EXIT; \
		$(PYTHON) -m venv "$$away/environment"; \
		cd "$$away"; PATH="$$away/environment/bin:$$PATH"; \
		python -m pip install --quiet --disable-pip-version-check --constraint "$$constraints" "$$wheel"; \
		encoder-spec check torch-post-ln torch-pre-ln reference; \
		encoder-spec traceability > traceability.txt || { cat traceability.txt; exit 1; }; \
		python -m pytest --pyargs conformance_tests -p no:cacheprovider

release: $(READY)
	$(BIN)/python .ci/release.py $(VERSION) $(if $(DRY_RUN),--dry-run)

docs: $(READY)
	PYTHONPATH=docs $(BIN)/python -m generators.built site

serve: $(READY)
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs serve

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/vulture
	$(BIN)/lint-imports --no-cache
	$(BIN)/python -m conformance_tests.meta_tests.prose

bench: $(READY)
	$(BIN)/python -m benchmarks $(ARGS)

bench-guard: $(READY)
	$(BIN)/python -m benchmarks.guard

matrix: $(READY)
	$(BIN)/python -m conformance_tests.quality.kill_matrix
	$(BIN)/python -m conformance_tests.quality.kills

resolution: $(READY)
	$(BIN)/python -m conformance_tests.quality.resolution

catalogue: $(READY)
	$(BIN)/python -m conformance_tests.frontends.catalogue

mutants: $(READY)
	$(BIN)/python -m conformance_tests.meta_tests.measurements.mutants

room-mutants: $(READY)
	$(BIN)/python -m conformance_tests.meta_tests.measurements.room_mutants

seeds: $(READY)
	$(BIN)/python -m conformance_tests.meta_tests.measurements.seeds

# keras-hub asks for the whole of TensorFlow, which its layers do not use on another backend.
$(FRAMEWORKS_READY): pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv-frameworks
	$(FRAMEWORKS)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt \
		--editable '.[dev,transformers,onnx,keras,flax,paddle]' torch==2.13.0
	$(FRAMEWORKS)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt \
		--no-deps keras-hub regex tokenizers
	@touch $@

frameworks: $(FRAMEWORKS_READY)
	$(FRAMEWORKS)/python -m pytest conformance_tests/meta_tests/encoders/test_keras.py conformance_tests/meta_tests/encoders/test_flax.py conformance_tests/meta_tests/encoders/test_paddle.py conformance_tests/meta_tests/subjects/test_jax_recording.py conformance_tests/meta_tests/subjects/test_jax_translated.py conformance_tests/meta_tests/subjects/test_held_jax.py conformance_tests/meta_tests/subjects/test_keras_computation.py
	$(FRAMEWORKS)/python -m conformance_tests.meta_tests.measurements.frameworks
