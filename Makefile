# SPDX-License-Identifier: BSD-3-Clause
# What people type. meson builds; scripts/ has what is longer than a line.
#
#   make          install what is missing, build
#   make demo     two nodes on this machine: MPI over TCP beside MPI over Hikyaku
#   make check    every test and linter
#   make format   put C and Python into the house style
#   make install  to PREFIX (/usr/local), below DESTDIR if that is set (docs/install.md)
#   make uninstall
#   make clean    remove what was built

BUILD ?= build
PYTHON ?= /usr/bin/python3
PREFIX ?= /usr/local
DESTDIR ?=
# Goes to ninja and to the tests.
JOBS ?= $(shell nproc)

export HIKYAKU_BUILD = $(BUILD)

.PHONY: all deps build install uninstall demo check format clean distclean
.DELETE_ON_ERROR:

all: build

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
	meson setup $(BUILD) --prefix $(PREFIX)

build: .venv/.complete $(BUILD)/build.ninja
	@ninja -C $(BUILD) -j $(JOBS)

install: all
	@grep -q '"name": "prefix", "value": "$(PREFIX)"' $(BUILD)/meson-info/intro-buildoptions.json || \
		meson configure $(BUILD) -Dprefix=$(PREFIX)
	HIKYAKU_VENV=$(CURDIR)/.venv DESTDIR='$(DESTDIR)' meson install -C $(BUILD) --quiet
	@if [ -z "$(DESTDIR)" ] && [ "$$(id -u)" = 0 ]; then ldconfig; fi

# What the last `make install` installed.
uninstall:
	ninja -C $(BUILD) uninstall
	rm -rf "$$(sed -n 's,/hikyaku/hikyaku$$,/hikyaku,p' $(BUILD)/meson-logs/install-log.txt)"

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
