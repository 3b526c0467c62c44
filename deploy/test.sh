#!/usr/bin/env bash
# The whole suite: installs what is missing, builds, runs everything. Last line: N passed, N failed, N skipped.
#   deploy/test.sh           each fuzzer 10 s
#   deploy/test.sh --long    each fuzzer 60 s, and a package is built and looked into (deploy/package.sh)
# A GoogleTest case counts one, a check program counts one.
set -uo pipefail
source "$(dirname "$0")/env.sh"
fuzz_seconds=10 with_package=0
case "${1:-}" in
  "") ;;
  -h | --help) sed -n '2,5s/^# \{0,1\}//p' deploy/test.sh; exit 0 ;;
  --long) fuzz_seconds=60 with_package=1 ;;
  *) echo "test.sh: unknown option $1 (--long)" >&2; exit 2 ;;
esac
export MODELD_SHARED=${MODELD_SHARED:-$root/../shared}

passed=0 failed=0 skipped=0 skipped_shared=0
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
# Nothing of this run may come from, or stay in, the user's own cache or runtime folder.
export MODELD_CACHE_DIR=$out/cache MODELD_RUNTIME_DIR=$out/run
mkdir -p "$MODELD_CACHE_DIR" "$MODELD_RUNTIME_DIR"

part() { part_name=$1; part_start=$SECONDS; echo "== $part_name"; }
part_end() { local s=$((SECONDS - part_start)); printf -- '-- %s: %d.%d min\n' "$part_name" $((s / 60)) $(((s % 60) * 10 / 60)); }

# One GoogleTest program; its cases are read from the JSON report, so a crash counts as a failure.
gtest_run() {
  local program=$1 limit=$2 report="$out/report.json" log="$out/log"
  rm -f "$report"
  timeout --kill-after=10 "$limit" "$program" --gtest_output="json:$report" --gtest_brief=1 >"$log" 2>&1
  local rc=$?
  local counts
  counts=$(python3 - "$report" <<'PY'
import json, sys
try:
    report = json.load(open(sys.argv[1]))
except Exception:
    print("0 1 0 0"); sys.exit()
ok = bad = skip = shared = 0
for suite in report["testsuites"]:
    for case in suite["testsuite"]:
        if case.get("result") == "SKIPPED":
            skip += 1
        elif case.get("result") == "SUPPRESSED" or case.get("status") == "NOTRUN":
            pass
        elif case.get("failures"):
            bad += 1
            print("FAILED", suite["name"] + "." + case["name"], file=sys.stderr)
        else:
            ok += 1
print(ok, bad, skip, shared)
PY
)
  read -r ok bad skip _ <<<"$counts"
  skipped_shared=$((skipped_shared + $(grep -c 'SKIPPED-SHARED' "$log")))
  if [ "$rc" != 0 ] && [ "$bad" = 0 ]; then bad=1; fi
  if [ "$bad" != 0 ]; then
    echo "FAILED $program (exit $rc)"
    tail -60 "$log"
  fi
  grep -h 'SKIPPED' "$log" | sort | uniq -c | head -8
  # What was measured against a limit, for whoever reads the log.
  grep -hE '\(limit [0-9]' "$log" | sed 's/^/   /' | head -20
  passed=$((passed + ok)) failed=$((failed + bad)) skipped=$((skipped + skip))
}

# One check program: exit 0 is a pass; its last line is shown.
check_run() {
  local limit=$1; shift
  local log="$out/log"
  timeout --kill-after=10 "$limit" "$@" >"$log" 2>&1
  local rc=$?
  if [ $rc = 0 ]; then
    passed=$((passed + 1))
    echo "   $(basename "$1") ${*:2}: $(tail -n 1 "$log")"
  else
    failed=$((failed + 1))
    echo "FAILED $* (exit $rc)"
    tail -40 "$log"
  fi
}

# One check program of many rows: its whole table is shown; a row it skipped (the reason stands in the table) is one skipped here,
# and a program that skipped them all has not passed.
table_run() {
  local limit=$1; shift
  local log="$out/log"
  timeout --kill-after=10 "$limit" "$@" >"$log" 2>&1
  local rc=$? rows_passed rows_skipped
  cat "$log"
  read -r rows_passed rows_skipped < <(
    sed -nE 's/.*\b([0-9]+) rows passed, [0-9]+ failed, ([0-9]+) skipped.*/\1 \2/p' "$log" | tail -n 1)
  skipped=$((skipped + ${rows_skipped:-0}))
  if [ $rc != 0 ]; then
    failed=$((failed + 1))
    echo "FAILED $* (exit $rc)"
  elif [ "${rows_passed:-1}" != 0 ]; then
    passed=$((passed + 1))
  fi
}

build_or_die() {
  if ! ./deploy/build.sh "$@" >"$out/build.log" 2>&1; then
    echo "FAILED deploy/build.sh $*"
    grep -E 'error|FAILED|undefined' "$out/build.log" | head -40
    tail -5 "$out/build.log"
    echo "$passed passed, $((failed + 1)) failed, $skipped skipped"
    exit 1
  fi
}

unit_test_programs() { find "$1" -type f -executable -name '*_test' ! -name 'e2e*_test' ! -path '*.p/*' | sort; }

part "release build"; build_or_die; part_end

part "unit tests"
for t in $(unit_test_programs build); do gtest_run "$t" 300; done
part_end

part "end to end"
for t in $(find build -type f -executable -name 'e2e*_test' | sort); do gtest_run "$t" 900; done
part_end

part "fuzzers and check programs"
for f in build/bin/fuzz_*; do
  [ -x "$f" ] || continue
  check_run $((fuzz_seconds * 3 + 120)) "$f" --seed 1 --seconds "$fuzz_seconds"
  check_run 300 "$f" --self-proof
done
part_end

part "random graphs"
check_run 300 build/bin/graph-fuzz --seed 1 --count 2000
check_run 300 build/bin/graph-fuzz --self-proof
part_end

part "random kernels and transcendental functions"
check_run 300 build/bin/kernel-fuzz --seed 1 --count 500
check_run 300 build/bin/kernel-fuzz --self-proof
check_run 300 build/bin/ulp-sweep --stride 1009 --count 200000
check_run 120 build/bin/ulp-sweep --self-proof
part_end

part "fault matrix and soak"
table_run 900 build/bin/fault-matrix --slack 3
check_run 300 build/bin/fault-matrix --self-proof
check_run 600 build/bin/soak --replays 20000 --small 0
check_run 300 build/bin/soak --self-proof
part_end

part "service under systemd"
table_run 600 build/bin/systemd-check --slack 3
table_run 900 build/bin/systemd-check --self-proof --slack 3
part_end

if [ $with_package = 1 ]; then
  part "package"
  check_run 3600 ./deploy/package.sh --self-proof
  part_end
fi

part "benchmarks, small, to see that they run"
check_run 300 build/bin/bench_compile --size tiny
check_run 300 build/bin/bench_bundle_load --size tiny --count 2
check_run 300 build/bin/bench_schedule --slack 3
check_run 300 build/bin/bench_ipc --count 100 --runs 1
check_run 300 build/bin/bench_start --count 1
for role in road cabin; do check_run 300 build/bin/bench_step --role $role --size small --count 20; done
part_end

part "sanitizer build (ASan, UBSan)"; build_or_die --san; part_end
part "unit tests under ASan and UBSan"
export ASAN_OPTIONS=detect_leaks=1:abort_on_error=0 UBSAN_OPTIONS=print_stacktrace=1
for t in $(unit_test_programs build-san); do gtest_run "$t" 900; done
part_end

part "thread sanitizer build"; build_or_die --tsan; part_end
part "hal, ipc and daemon tests under TSan"
export TSAN_OPTIONS=halt_on_error=1
for t in $(unit_test_programs build-tsan); do gtest_run "$t" 900; done
part_end

echo "SKIPPED-SHARED $skipped_shared"
echo "total $((SECONDS / 60)) min"
echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" = 0 ] && [ "$passed" -gt 0 ]
