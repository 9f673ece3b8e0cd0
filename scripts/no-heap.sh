#!/usr/bin/env bash
# Builds the no-heap example as a static library and looks for an allocator among its symbols.
set -euo pipefail
cd "$(dirname "$0")/.."
cargo build --release --manifest-path examples/no-heap/Cargo.toml --target-dir target/no-heap
library=target/no-heap/release/libno_heap.a
object=$(mktemp)
trap 'rm -f "$object"' EXIT
nm --demangle "$library" 2>/dev/null >"$object" || true
if grep -E '__rust_alloc|__rust_realloc|__rdl_alloc|\b(malloc|calloc|realloc)\b|alloc::(vec|boxed|raw_vec)' "$object"; then
    echo "no-heap: the symbols above are an allocator's" >&2
    exit 1
fi
grep -q ' T debloat_enqueue$' "$object" || { echo "no-heap: debloat_enqueue is missing" >&2; exit 1; }
echo "no-heap: $(size -t "$library" | tail -1 | awk '{print $1" bytes of code, "$2+$3" of data"}'); no allocator among the symbols"
