#!/usr/bin/env bash
# Names the qdiscs that `debloat oracle diff` compares, from the table in conformance/src/diff/targets/mod.rs.
set -euo pipefail
cd "$(dirname "$0")/.."
sed -n '/pub const TARGETS/,/];/p' conformance/src/diff/targets/mod.rs | grep -o '&[a-z_]*::' | tr -d '&:' | sort -u
