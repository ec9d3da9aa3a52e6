# Two commands: `make demo` shows what it does, `make test` proves it. Both set up everything they need in .venv.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check
export PYTHONUNBUFFERED := 1

.PHONY: demo serve test lint unit bench audit docs clean
.DEFAULT_GOAL := test

# The stamp is renewed only when a file that decides what is installed has changed.
$(VENV)/ready: pyproject.toml constraints.txt
	$(PYTHON) -c 'import sys; sys.exit("trimtab needs Python 3.11 or newer; set PYTHON=python3.11" if sys.version_info < (3, 11) else 0)'
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(PIP) install --quiet --constraint constraints.txt --editable '.[dev]'
	touch $@

demo: $(VENV)/ready
	$(BIN)/trimtab demo

# A server with a page that lives: real images are sent to it, a few per second, until Ctrl-C.
serve: $(VENV)/ready
	$(BIN)/python examples/live/serve_cifar10.py

lint: $(VENV)/ready
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo

# One process per core, each with one thread; the tests of a file stay together and share what they have made.
unit: $(VENV)/ready
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest --numprocesses auto --maxprocesses 4 --dist loadfile --no-loadscope-reorder

test: lint unit

bench: $(VENV)/ready
	$(BIN)/python -m benchmarks

# Into site/; a broken link or an unreadable docstring is an error. To read it: python -m http.server -d site
docs: $(VENV)/ready
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

# Bad inputs, damaged files and kills, all of them; the suite runs a quick part of each.
audit: $(VENV)/ready
	$(BIN)/python -m tests.audit

clean:
	rm -rf $(VENV) build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis demo-output site
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
