# Every target builds what it needs: `make demo` and `make test` work in a fresh clone.

PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.installed
CODE   := budget_plugin tests demo bench tools
PRESENT = $(wildcard $(CODE))

.DEFAULT_GOAL := help
.PHONY: help install demo test lint bench prices clean

help:  ## what can be made
	@awk -F ':.*## ' '/^[a-z]+:.*## / {printf "  make %-8s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

# The development environment, with the real Hermes in it. Made again when the dependencies change.
$(STAMP): pyproject.toml
	@$(PYTHON) -c 'import sys; v = sys.version_info[:2]; sys.exit(0 if (3, 11) <= v < (3, 14) else \
	  "Python 3.11, 3.12 or 3.13 is needed (hermes-agent supports no other); this is %d.%d. " % v + \
	  "Name another: make PYTHON=python3.12 ...")'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet --editable . --group dev --group host
	@touch $@

install: $(STAMP)  ## the environment alone: .venv, with hermes-agent

demo: $(STAMP)  ## the real Hermes plays five scenes against a provider on this machine
	$(BIN)/python -m demo.play

test: $(STAMP)  ## everything: unit, property, contract, packaging, docs, real host
	$(BIN)/python -m pytest --numprocesses auto --dist worksteal

lint: $(STAMP)  ## ruff, mypy, the floors of the architecture
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

bench: $(STAMP)  ## how fast, in a table
	$(BIN)/python -m bench

prices: $(STAMP)  ## write pricing.yaml anew from the pinned sources
	@test -n "$(LITELLM)" || { echo "name LiteLLM's table, see docs/prices.md: make prices LITELLM=FILE"; exit 2; }
	$(BIN)/python -m pip install --quiet genai-prices==0.2.3
	$(BIN)/python tools/build_prices.py $(LITELLM)

clean:  ## remove the environment, builds and caches
	rm -rf $(VENV) .build build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	find $(PRESENT) migrations -name __pycache__ -type d -prune -exec rm -rf {} +
