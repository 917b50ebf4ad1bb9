#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
#
# run.sh TARGET SEEDS RUNS: runs a libFuzzer target for a bounded number of inputs.
#
# New inputs go to a temporary directory, not into SEEDS. libFuzzer writes an input that fails to
# the target's directory and prints its name. FUZZ_RUNS overrides RUNS.
set -eu
target=$1 seeds=$2 runs=${FUZZ_RUNS:-$3}
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
trap 'exit 130' INT TERM
"$target" -runs="$runs" -seed=1 -max_len=1500 -timeout=20 -print_final_stats=1 \
	-artifact_prefix="$(dirname "$target")/" "$scratch" "$seeds"
