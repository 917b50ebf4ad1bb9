# SPDX-License-Identifier: BSD-3-Clause
# The commands that people type. meson builds; scripts/ has everything longer than a line.
#
#   make            install what is missing, build
#   make demo       two nodes on this machine: MPI over TCP beside MPI over Hikyaku
#   make quick      for daily work: linters, unit tests, the core of the tests in labs
#   make check      every test and linter
#   make check-debian13   builds and tests on Debian 13, in a root directory (build-debian13)
#   make check-deb  installs the packages of `make deb` in a clean Debian, and tries them
#   make check-fabtests DIR=...  libfabric's own tests over the provider; DIR has the programs
#   make check-mpich-rma DIR=...  MPICH's one-sided tests with Open MPI; DIR has MPICH's source
#   make check-openshmem DIR=...  Sandia OpenSHMEM's tests over the provider; DIR has it, built
#   make mutate     wrong lines in engine and codec that no test notices; ARGS="--sample 100"
#   make sim-ns3    our engine beside TCP in ns-3 (tools/sim-ns3), a table in out/
#   make deb        Debian packages in build/deb, for the release of Debian that runs it
#   make docs       the pages as a searchable site in build/site
#   make format     put C and Python into the house style
#   make install    to PREFIX (/usr/local), below DESTDIR if that is set (docs/install.md)
#   make uninstall  from PREFIX
#   make clean      remove everything that was built
#   make help       this list

BUILD ?= build
PYTHON ?= /usr/bin/python3
PREFIX ?= /usr/local
DESTDIR ?=
# Of sim-ns3, such as --quick.
ARGS ?=
# Goes to ninja and to the tests.
JOBS ?= $(shell nproc)

# A misspelt variable would be ignored: `make install PREFX=/opt` would write to /usr/local. The
# compiler's variables reach meson by the environment.
VARIABLES := BUILD PYTHON PREFIX DESTDIR ARGS DIR JOBS
COMPILERS := CC CXX FC CFLAGS CXXFLAGS FFLAGS LDFLAGS PKG_CONFIG_PATH
GIVEN := $(foreach v,$(.VARIABLES),$(if $(filter command,$(firstword $(origin $(v)))),$(v)))
UNKNOWN := $(filter-out $(VARIABLES) $(COMPILERS) MAKE%,$(GIVEN))
ifneq ($(UNKNOWN),)
$(error there is no variable $(UNKNOWN); fix: use some of: $(VARIABLES))
endif

export HIKYAKU_BUILD = $(BUILD)

PIP = -m pip install --quiet --disable-pip-version-check --require-hashes

.PHONY: all deps deps-check build install uninstall deb demo quick check check-debian13 check-deb \
	check-fabtests check-mpich-rma check-openshmem mutate sim-ns3 docs format clean distclean \
	help
.DELETE_ON_ERROR:

all: .venv/.complete build

help:
	@sed -n '/^$$/q; s/^#   //p' Makefile

deps:
	@scripts/install-deps build

deps-check:
	@scripts/install-deps

# Each stamp is written last, so an unfinished environment is completed or made again. The package
# `hikyaku` lies beside the environment, here and where both are installed: hikyaku.pth names it.
.venv/.demo: requirements-demo.in requirements.txt | deps
	rm -rf .venv
	$(PYTHON) -m venv .venv
	scripts/locked.py requirements-demo.in >.venv/demo.txt
	.venv/bin/python $(PIP) -r .venv/demo.txt
	for d in .venv/lib/python3*/site-packages; do echo ../../../../python >$$d/hikyaku.pth; done
	touch $@

.venv/.complete: .venv/.demo requirements.txt
	.venv/bin/python $(PIP) -r requirements.txt
	touch $@

.venv/.check: .venv/.complete requirements-check.txt
	.venv/bin/python $(PIP) -r requirements-check.txt
	touch $@

$(BUILD)/.venv-docs/.complete: requirements-docs.txt | deps
	rm -rf $(@D)
	$(PYTHON) -m venv $(@D)
	$(@D)/bin/python $(PIP) -r requirements-docs.txt
	touch $@

$(BUILD)/build.ninja: | deps
	meson setup $(BUILD)

build: .venv/.demo $(BUILD)/build.ninja
	@ninja -C $(BUILD) -j $(JOBS)

# PREFIX does not configure the build directory: scripts/install.py moves the files there.
install: all
	HIKYAKU_VENV=$(CURDIR)/.venv DESTDIR='$(DESTDIR)' \
		$(PYTHON) scripts/install.py --build $(BUILD) '$(PREFIX)'
	@if [ -z "$(DESTDIR)" ] && [ "$$(id -u)" = 0 ]; then ldconfig; fi

uninstall:
	DESTDIR='$(DESTDIR)' $(PYTHON) scripts/install.py --remove '$(PREFIX)'

# For users of a cluster's package archive: scripts/try-deb installs them in a clean Debian.
deb: all .venv/.complete
	rm -rf $(BUILD)/deb
	HIKYAKU_VENV=$(CURDIR)/.venv DESTDIR=$(CURDIR)/$(BUILD)/deb/tree \
		$(PYTHON) scripts/install.py --build $(BUILD) /usr
	$(PYTHON) scripts/make-deb.py --version \
		"$$(meson introspect $(BUILD) --projectinfo | $(PYTHON) -c \
		'import json, sys; print(json.load(sys.stdin)["version"])')" \
		$(BUILD)/deb/tree $(BUILD)/deb
	rm -rf $(BUILD)/deb/tree

# The plot first: the packages of the other commands take a minute more.
demo: build
	./hikyaku demo
	@[ -e .venv/.complete ] || echo "installing the Python packages of the other commands"
	@$(MAKE) --no-print-directory .venv/.complete

quick: deps-check all .venv/.check
	.venv/bin/python scripts/check.py --build $(BUILD) --jobs $(JOBS) --quick

check: deps-check all .venv/.check
	.venv/bin/python scripts/check.py --build $(BUILD) --jobs $(JOBS)

check-debian13:
	scripts/debian13

# Those of Debian 13 are of its root directory, if check-debian13 has made it.
check-deb: deb
	scripts/try-deb bookworm $(BUILD)/deb build-debian12-clean
	[ ! -d build-debian13/hikyaku/build/deb ] || \
		scripts/try-deb trixie build-debian13/hikyaku/build/deb build-debian13-clean

check-fabtests: all
	.venv/bin/python scripts/fabtests.py $(DIR) $(ARGS)

check-mpich-rma: all
	.venv/bin/python scripts/mpich_rma.py $(DIR) $(ARGS)

check-openshmem: all
	.venv/bin/python scripts/openshmem.py $(DIR) $(ARGS)

mutate: deps
	$(PYTHON) scripts/mutate.py --build $(BUILD)-mutate $(ARGS)

# Debian's libns3-dev is for this target alone.
$(BUILD)-ns3/build.ninja:
	meson setup $(BUILD)-ns3 -Dpure=true -Dns3=true

sim-ns3: $(BUILD)-ns3/build.ninja
	@ninja -C $(BUILD)-ns3 -j $(JOBS) sim-ns3
	@$(PYTHON) scripts/sim-ns3.py --build $(BUILD)-ns3 --jobs $(JOBS) $(ARGS)

docs: $(BUILD)/.venv-docs/.complete
	$(BUILD)/.venv-docs/bin/python scripts/make-docs.py $(BUILD) $(BUILD)/.venv-docs/bin/mkdocs

format: .venv/.check
	git ls-files '*.c' '*.cc' '*.h' | xargs clang-format -i
	.venv/bin/ruff format python scripts tests
	.venv/bin/ruff check --fix python scripts tests

clean:
	rm -rf $(BUILD) $(BUILD)-arm64 $(BUILD)-asan $(BUILD)-fuzz $(BUILD)-mutate $(BUILD)-ns3 \
		out .ruff_cache .pytest_cache

distclean: clean
	rm -rf .venv
