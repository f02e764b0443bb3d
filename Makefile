# Everything below needs only python3 (3.11 or newer, with venv); each target sets up .venv by itself.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

.PHONY: compare test lint bench sweep clean
.DELETE_ON_ERROR:

$(STAMP): pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --editable ".[dev]"
	touch $(STAMP)

compare: $(STAMP)  ## FCFS, spf, sglang-lpm and lpm on the built-in trace, with the optimum
	$(BIN)/radixcache compare

test: $(STAMP)  ## the whole test suite
	$(BIN)/python -m pytest -n 2

lint: $(STAMP)  ## ruff and mypy --strict
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy --strict

PEERS ?= ../peers
bench: $(STAMP)  ## every benchmark, beside the peers unpacked in PEERS; writes bench/results
	$(BIN)/python -m bench --peers-dir $(PEERS)

TRACES ?= ../shared/traces
sweep: $(STAMP)  ## every order on four workloads, some half an hour of CPU; writes bench/results/sweep
	$(BIN)/python -m bench.sweep --traces-dir $(TRACES)
	$(BIN)/python -m bench.sweep_table

clean:
	rm -rf $(VENV) .hypothesis .mypy_cache .ruff_cache .pytest_cache
