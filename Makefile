# make run   install the runtime (no torch) and track a conversation
# make test  install everything and run format, lint, types and all tests

PYTHON ?= python3
VENV ?= .venv
BIN = $(VENV)/bin

.PHONY: run serve test format clean
run: $(VENV)/runtime
	$(BIN)/somdst demo

serve: $(VENV)/runtime
	$(BIN)/somdst serve

test: $(VENV)/everything
	scripts/check $(BIN)

format: $(VENV)/everything
	$(BIN)/ruff format somdst benchmarks examples tests scripts
	$(BIN)/ruff check --fix somdst benchmarks examples tests scripts

$(VENV)/runtime: pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/pip install -q --upgrade pip
	$(BIN)/pip install -q --no-compile -c constraints.txt -e .
	touch $@

# torch first and by its exact version, so that no package pulls another build of it.
$(VENV)/everything: pyproject.toml constraints.txt scripts/system-packages
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/pip install -q --upgrade pip
	$(BIN)/pip install -q $$(grep '^torch==' constraints.txt)
	$(BIN)/pip install -q -c constraints.txt -e '.[train,ray,postgres,langgraph,mcp,pipecat,dev]'
	scripts/system-packages
	touch $@ $(VENV)/runtime

clean:
	rm -rf $(VENV) build dist *.egg-info
