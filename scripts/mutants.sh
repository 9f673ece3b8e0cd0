#!/usr/bin/env bash
# Plants one-constant mutants in a copy of the ports, one at a time, and shows what catches each.
#
#   scripts/mutants.sh            every mutant against the unit tests, then the committed traces, then the oracle
#   scripts/mutants.sh --quick    the few of scripts/mutants.txt marked with *
#
# Lines of scripts/mutants.txt:  [*]name | file | sed expression | oracle subject
set -uo pipefail
cd "$(dirname "$0")/.."
quick=${1:-}
copy=$(mktemp -d)
trap 'rm -rf "$copy"' EXIT
git archive HEAD | tar -x -C "$copy"
export CARGO_TARGET_DIR="$PWD/target/mutants"
debloat="$CARGO_TARGET_DIR/release/debloat"
caught=0 survived=0
while IFS='|' read -r name file expression subject; do
    name=$(echo "$name" | xargs); file=$(echo "$file" | xargs); subject=$(echo "$subject" | xargs)
    expression=$(echo "$expression" | sed 's/^ *//; s/ *$//')
    case "$name" in ''|'#'*) continue ;; esac
    if [ "$quick" = --quick ] && [ "${name#\*}" = "$name" ]; then continue; fi
    name=${name#\*}
    cp "$copy/$file" "$copy/original"
    sed -i -E "$expression" "$copy/$file"
    if cmp -s "$copy/$file" "$copy/original"; then
        echo "$name: NOT PLANTED (the expression no longer matches)"; survived=$((survived + 1)); continue
    fi
    by=
    if ! (cd "$copy" && cargo build -q --release -p debloat 2>/dev/null); then by="the compiler"; fi
    if [ -z "$by" ] && ! "$debloat" conform --traces "$copy/conformance/traces" --filter "$subject" >/dev/null 2>&1; then by="committed traces"; fi
    if [ -z "$by" ]; then
        answer=$("$debloat" oracle diff "$subject" --kernel newest --ops 1e6 --out "$copy/divergences" 2>&1)
        [ $? -eq 1 ] && by="oracle: $(echo "$answer" | grep -o 'after [0-9,]* operations' | head -1)"
    fi
    if [ -z "$by" ] && [ "$quick" != --quick ] && ! (cd "$copy" && cargo test -q -p debloat-aqm -p debloat-cc >/dev/null 2>&1); then by="unit tests"; fi
    cp "$copy/original" "$copy/$file"
    if [ -n "$by" ]; then echo "$name: caught by $by"; caught=$((caught + 1)); else echo "$name: SURVIVED"; survived=$((survived + 1)); fi
done < scripts/mutants.txt
echo "$caught caught, $survived not"
[ "$survived" -eq 0 ]
