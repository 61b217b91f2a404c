# Everything starts here; each target sets up what it needs.
#
#   make check   judge torch's own encoders, and print the report
#   make test    run the whole test suite
#   make docs    build the site into site/, strictly
#   make serve   show the site while you write
#   make lint    ruff and mypy
#   make bench   measure ratios, side by side in one run
#   make matrix  run every deviation as a subject, and put on file what notices it
#   make setup   create .venv; the second time it takes no time

PYTHON ?= python3
BIN := .venv/bin
READY := .venv/.ready

.PHONY: setup check test docs serve lint bench matrix
.DEFAULT_GOAL := setup

setup: $(READY)

$(READY): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
		|| { echo "encoder-spec needs Python 3.11 or newer: make PYTHON=python3.11"; exit 1; }
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[dev,docs,transformers]'
	@touch $@

check: $(READY)
	@$(BIN)/encoder-spec check torch-post-ln torch-pre-ln reference

test: $(READY)
	$(BIN)/python -m pytest --numprocesses auto --dist loadfile

docs: $(READY)
	$(BIN)/python -m mkdocs build --strict

serve: $(READY)
	$(BIN)/python -m mkdocs serve

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

bench: $(READY)
	$(BIN)/python benchmarks/run.py

matrix: $(READY)
	$(BIN)/python -m conformance_tests.kill_matrix
