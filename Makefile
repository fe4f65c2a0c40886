# Ten words: help, repro, demo, demo-weights, study, check-data, test, lint, bench, picture.
PYTHON ?= python3
BIN := .venv/bin
# DVC runs the stages with the environment's python
export PATH := $(CURDIR)/$(BIN):$(PATH)
# else every process compiles torch anew, 4 to 10 s, where the shell forbids Python to keep its bytecode
unexport PYTHONDONTWRITEBYTECODE
# what is set at `make NAME=…` reaches the recipes as it is, in the environment: in their text it would be commands
override NAME := $(value NAME)
override DATASET := $(value DATASET)
override SEEDS := $(value SEEDS)
override TESTS := $(value TESTS)
export NAME DATASET SEEDS TESTS

help: ## say what there is
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*##/\t/' | expand -t 12

repro: .venv/ready ## the main job: render, extract, train, decode, score, report; cached
	dvc repro
	@python -m stages.report --show

demo: .venv/ready ## a page in your browser: new scenes, or your two pictures, captioned; no training
	@python -m stages.demo

demo-weights: .venv/ready ## train and pack anew what `make demo` shows, for hours; overwrites demo/
	@demo/train

study: .venv/ready ## a paper's table: make study NAME=scorer-table-6 DATASET=tabletop [SEEDS="1 2 3"]
	$(if $(NAME),,$(error name a study: make study NAME=scorer-table-6 DATASET=tabletop))
	$(if $(DATASET),,$(error name a dataset: make study NAME=$(NAME) DATASET=tabletop))
	@set -f; python -m stages.study --name "$$NAME" --dataset "$$DATASET" $${SEEDS:+--seeds $$SEEDS}

check-data: .venv/ready ## is a real dataset's folder complete? make check-data DATASET=spot_the_diff
	$(if $(DATASET),,$(error name a dataset: make check-data DATASET=spot_the_diff))
	@python -m stages.check_data --dataset "$$DATASET"

test: .venv/ready ## the test suite, on all cores; some of it: make test TESTS="-m 'not slow' tests/models"
	@printf '%s\n' "--dist worksteal $$TESTS" | OMP_NUM_THREADS=1 xargs python -m pytest --numprocesses auto

lint: .venv/ready ## ruff, that the files are formatted, and their types
	ruff check .
	ruff format --check .
	mypy

bench: .venv/ready ## the benchmarks, side by side with reference implementations
	python -m benchmarks

picture: .venv/ready ## docs/report.png, of the report that make repro made
	python -m docs.picture

# The environment: exact pins with hashes; uv installs them in seconds, and is itself one of them.
.venv/ready: requirements.lock
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
		|| { echo "error: Python 3.11 or later is needed; make PYTHON=/path/to/python3" >&2; exit 2; }
	@test ! -L .venv || { echo "error: .venv is a link, and what it leads to would be emptied; remove it" >&2; exit 2; }
	$(PYTHON) -m venv --clear .venv
	sed -n '/^uv==/,/# via/p' requirements.lock > .venv/uv.lock
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --require-hashes -r .venv/uv.lock
	$(BIN)/uv pip install --quiet --python $(BIN)/python --require-hashes -r requirements.lock
	touch $@

# after editing pyproject.toml: pin the newest versions again
lock:
	$(BIN)/uv pip compile --quiet --universal --python-version 3.11 --group dev --group cluster --generate-hashes \
		--no-emit-index-url pyproject.toml -o requirements.lock

.PHONY: help repro demo demo-weights study check-data test lint bench picture lock
