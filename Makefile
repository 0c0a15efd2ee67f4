# Everything a fresh machine needs: Python 3.11 or newer, a Rust toolchain, git, gcc, make.
#   make demo   builds, remembers a coding diary, asks it
#   make test   builds, runs all tests of both languages
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
export VIRTUAL_ENV := $(CURDIR)/$(VENV)
export PATH := $(CURDIR)/$(BIN):$(PATH)
# The embedder of the tests spins on its threads otherwise and slows down everything beside it.
export OMP_WAIT_POLICY := passive

BENCH = mkdir -p .benchmarks && $(BIN)/python -m pytest benches --benchmark-only --benchmark-json=.benchmarks/run.json -q

COMPARE_SIZES ?= 10000 100000
COMPARE_ROUNDS ?= 3
COMPARE_QUESTIONS ?= 500
VECTORS_SIZES ?= 10000 100000
VECTORS_WIDE ?= 10000x1536
VECTORS_ROUNDS ?= 3
VECTORS_QUESTIONS ?= 500
EVAL ?=

CRASH = PYTHONPATH=tests $(BIN)/python -m crash
KILLS ?= 2000
STOPS ?= 60
TERMS ?= 300
IMAGES ?= 10000
MINUTES ?= 20
SEED ?= 1

.PHONY: help demo test test-rust test-python test-long lint fmt bench bench-docs eval bench-compare bench-vectors bench-store crash soak build clean

help: ## this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 16

demo: build ## builds, imports a coding diary, asks it, ends with recall@5
	@$(BIN)/python examples/demo.py

test: test-rust test-python ## all tests of both languages

test-rust: ## tests of the engine
	@echo "== Rust tests"
	cargo test --workspace --locked

test-python: build $(VENV)/.test ## tests through the public API and the command line
	@echo "== Python tests"
	$(BIN)/python -m pytest

test-long: build $(VENV)/.test ## the state machine, field reports and sharing with many rounds, some half an hour
	TESTS_LONG=1 $(BIN)/python -m pytest --timeout 7200 tests/test_memory_model.py tests/test_sharing.py tests/test_field_reports_*.py

lint: build $(VENV)/.lint ## formatting, clippy, ruff, types, the stub against the built module
	@echo "== Lint"
	cargo fmt --all --check
	cargo clippy --workspace --all-targets --locked -- -D warnings
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/python -m mypy.stubtest otolith._core --mypy-config-file pyproject.toml

fmt: $(VENV)/.lint ## formats both languages
	cargo fmt --all
	$(BIN)/ruff check --fix-only .
	$(BIN)/ruff format .

bench: build $(VENV)/.test ## speed with recall beside it, release build, seeded data
	@$(BENCH) > .benchmarks/log || { cat .benchmarks/log; exit 1; }
	@$(BIN)/python benches/report.py .benchmarks/run.json

bench-docs: build $(VENV)/.test ## the same, written to docs/benchmarks.md
	@$(BENCH)
	@$(BIN)/python benches/report.py .benchmarks/run.json docs/benchmarks.md

crash: build $(VENV)/.test ## kills, stops and damages for about an hour; sizes: KILLS STOPS TERMS IMAGES SEED
	$(CRASH) kills --count $(KILLS) --seed $(SEED) --json .benchmarks/kills.json
	$(CRASH) stops --count $(STOPS) --terms $(TERMS) --seed $(SEED) --json .benchmarks/stops.json
	$(CRASH) damage --count $(IMAGES) --seed $(SEED) --json .benchmarks/damage.json
	$(CRASH) report docs/reliability.md .benchmarks/kills.json .benchmarks/stops.json .benchmarks/damage.json

soak: build $(VENV)/.test ## six processes for MINUTES (20): memory, file and latency must stay flat
	$(CRASH) soak --minutes $(MINUTES) --seed $(SEED) --json .benchmarks/soak.json
	$(CRASH) report docs/reliability.md .benchmarks/soak.json

bench-compare: build $(VENV)/.compare ## the lexical index beside its rivals; COMPARE_SIZES _ENGINES _ROUNDS _QUESTIONS, EVAL
	PYTHONPATH=benches $(BIN)/python -m compare run --sizes $(COMPARE_SIZES) $(if $(COMPARE_ENGINES),--engines $(COMPARE_ENGINES)) \
		--rounds $(COMPARE_ROUNDS) --questions $(COMPARE_QUESTIONS) --eval "$(EVAL)" \
		--json .benchmarks/compare.json --page docs/benchmarks-lexical.md

bench-vectors: build $(VENV)/.compare $(VENV)/.test ## vectors and both legs beside rivals; VECTORS_SIZES _WIDE _ENGINES _ROUNDS _QUESTIONS _FRESH, EVAL
	PYTHONPATH=benches $(BIN)/python -m vectors run --sizes $(VECTORS_SIZES) --wide $(VECTORS_WIDE) \
		$(if $(VECTORS_ENGINES),--engines $(VECTORS_ENGINES)) $(if $(VECTORS_FRESH),--fresh) \
		--rounds $(VECTORS_ROUNDS) --questions $(VECTORS_QUESTIONS) --eval "$(EVAL)" \
		--json .benchmarks/vectors.json --page docs/benchmarks-vectors.md

eval: build $(VENV)/.quality ## recall on the sets in EVAL beside what is asked, written to docs/recall.md
	PYTHONPATH=benches $(BIN)/python -m quality --eval "$(EVAL)" --page docs/recall.md

bench-store: ## the store against bare redb and the sync floor: 100,000 records, several processes, a few minutes
	cargo bench -p otolith-core --locked --bench store

build: $(VENV)/.made ## the package, optimised, into .venv
	@echo "== Build (the first time takes some minutes)"
	$(BIN)/maturin develop --release --locked --extras all

$(VENV)/.made:
	@echo "== Making $(VENV)"
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --upgrade "pip>=25.1"
	$(BIN)/python -m pip install --quiet "maturin>=1.9,<2"
	@touch $@

$(VENV)/.test: $(VENV)/.made pyproject.toml
	@echo "== Installing what the tests need"
	$(BIN)/python -m pip install --quiet --group test --group embedder --group adapters
	@touch $@

$(VENV)/.quality: $(VENV)/.made pyproject.toml
	@echo "== Installing the models"
	$(BIN)/python -m pip install --quiet --group quality
	@touch $@

$(VENV)/.compare: $(VENV)/.made pyproject.toml
	@echo "== Installing the rivals"
	$(BIN)/python -m pip install --quiet --group compare
	@touch $@

$(VENV)/.lint: $(VENV)/.made pyproject.toml
	@echo "== Installing linters"
	$(BIN)/python -m pip install --quiet --group lint --group test
	@touch $@

clean: ## removes everything that was built
	rm -rf $(VENV) target
	find python -name '*.so' -delete
