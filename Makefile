# SPDX-License-Identifier: BSD-3-Clause
# What people type. meson builds; scripts/ has what is longer than a line.
#
#   make          install what is missing, build
#   make demo     two nodes on this machine: MPI over TCP beside MPI over Hikyaku
#   make check    every test and linter
#   make format   put C and Python into the house style
#   make clean    remove what was built

BUILD ?= build
PYTHON ?= /usr/bin/python3
# Goes to ninja and to the tests.
JOBS ?= $(shell nproc)

export HIKYAKU_BUILD = $(BUILD)

.PHONY: all deps build man demo check format clean distclean
.DELETE_ON_ERROR:

all: build man

deps:
	@scripts/install-deps

# The stamp is last: an environment that was not finished is made anew.
.venv/.complete: requirements.txt | deps
	rm -rf .venv
	$(PYTHON) -m venv .venv
	.venv/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes \
		-r requirements.txt
	touch $@

$(BUILD)/build.ninja: | deps
	meson setup $(BUILD)

build: .venv/.complete $(BUILD)/build.ninja
	@ninja -C $(BUILD) -j $(JOBS)

man: $(patsubst docs/man/%.md,$(BUILD)/man/%,$(wildcard docs/man/*.md))

$(BUILD)/man/%: docs/man/%.md | deps $(BUILD)/build.ninja
	@mkdir -p $(@D)
	go-md2man -in $< -out $@

demo: build
	./hikyaku demo

check: all
	.venv/bin/python scripts/check.py --build $(BUILD) --jobs $(JOBS)

format: .venv/.complete
	git ls-files '*.c' '*.h' | xargs clang-format -i
	.venv/bin/ruff format python scripts tests
	.venv/bin/ruff check --fix python scripts tests

clean:
	rm -rf $(BUILD) $(BUILD)-asan $(BUILD)-fuzz out .ruff_cache .pytest_cache

distclean: clean
	rm -rf .venv
