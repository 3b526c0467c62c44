#!/usr/bin/env bash
# The whole pipeline on this machine, in one command: ONNX -> bundles -> daemon -> live outputs.
#   deploy/demo.sh [--device URI] [--models tiny|small|full]
# Installs what is missing, builds a release, makes the stand-in models, compiles them, starts camera and daemon as this
# user, shows a live table for about 10 s, replays the recording offline, and ends with one JSON line. Exit 0 only if
# both models were READY all the time, at 19 Hz or more with p99 below 50 ms (speed is not asked of simulated devices),
# outputs followed the scene, and the recording replays bit for bit.
set -uo pipefail
source "$(dirname "$0")/env.sh"

device=cpu models=small seconds=10
usage() { sed -n '3s/^# *//p' "$0" >&2; exit 2; }
while [ $# -gt 0 ]; do
  case "$1" in
    --device) [ $# -ge 2 ] || usage; device=$2; shift 2 ;;
    --models) [ $# -ge 2 ] || usage; models=$2; shift 2 ;;
    -h | --help) sed -n '2,7s/^# \{0,1\}//p' "$0"; exit 0 ;;
    *) echo "demo: unknown option $1" >&2; usage ;;
  esac
done
case "$models" in tiny | small | full) ;; *) echo "demo: --models $models: want tiny, small or full" >&2; exit 2 ;; esac

# What a device runs is compiled for its target.
case "$device" in
  cpu | cpu:* | null) target=cpu ;;
  cl | cl:*) target=cl ;;
  qcom:sim) target=qcom:sim ;;
  qcom:*) target=qcom:a630 ;;
  amd:sim:*) target=amd:${device#amd:sim:} ;;
  amd:*) target=amd:gfx1201 ;;
  *) echo "demo: --device $device: want cpu[:N], cl[:N], qcom:/dev/kgsl-3d0, qcom:sim, amd:usb, amd:sim[:gfx1201] or null" >&2; exit 2 ;;
esac

work=$(mktemp -d "${TMPDIR:-/tmp}/modeld-demo.XXXXXX") || exit 1
# The runtime folder lies in memory, as /run does on a vehicle: what a build just wrote is still on its way to the disk, and the
# daemon's files must not queue behind it.
run=$(mktemp -d /dev/shm/modeld-demo.XXXXXX 2>/dev/null) || run=$work/run
pids=()
cleanup() {
  trap - EXIT INT TERM HUP
  local pid left
  for pid in "${pids[@]}"; do kill -TERM "$pid" 2>/dev/null; done
  for _ in $(seq 30); do
    left=0
    for pid in "${pids[@]}"; do kill -0 "$pid" 2>/dev/null && left=1; done
    [ $left = 0 ] && break
    sleep 0.1
  done
  for pid in "${pids[@]}"; do kill -KILL "$pid" 2>/dev/null; done
  wait 2>/dev/null
  rm -rf "$work" "$run"
}
trap cleanup EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP

step() { printf '== %s\n' "$*"; }
die() {
  echo "demo: $1" >&2
  for log in "$work"/*.log; do [ -s "$log" ] && { echo "-- $(basename "$log")"; tail -n 20 "$log"; } >&2; done
  exit 1
}
# $1 seconds at most for the rest of the arguments to succeed.
within() {
  local end=$((SECONDS + $1)); shift
  until "$@" >/dev/null 2>&1; do [ $SECONDS -lt $end ] || return 1; sleep 0.05; done
}

step "building (first time some minutes)"
mkdir -p build
./deploy/build.sh --programs >build/demo-build.log 2>&1 || { tail -n 30 build/demo-build.log >&2; die "build failed"; }
bin=$root/build/bin

export MODELD_RUNTIME_DIR=$run MODELD_CACHE_DIR=$root/build/kernel-cache
mkdir -p "$MODELD_RUNTIME_DIR" && chmod 0750 "$MODELD_RUNTIME_DIR" && mkdir -p "$MODELD_CACHE_DIR" || die "cannot make folders"

for role in road cabin; do
  step "$role: stand-in model ($models) -> bundle for $target"
  timeout 120 "$bin/modelc" reference $role --size "$models" --dtype f32 -o "$work/$role.onnx" || die "modelc reference $role"
  threads=2; [ $role = cabin ] && threads=1
  timeout 600 "$bin/modelc" build "$work/$role.onnx" --target "$target" --role $role --threads $threads -o "$work/$role.bundle" || die "modelc build $role"
done

cat >"$work/modeld.toml" <<TOML
[model.road]
bundle = "$work/road.bundle"
device = "$device"
[model.cabin]
bundle = "$work/cabin.bundle"
device = "$device"
[publish]
raw = true
TOML

step "modeld, modelctl, modelcam in $MODELD_RUNTIME_DIR"
"$bin/modeld" --config "$work/modeld.toml" >"$work/modeld.log" 2>&1 & pids+=($!)
within 20 "$bin/modelctl" status || die "modeld does not answer"
# The recorder must be there before the first frame: a recording holds every run since the reset.
wait_s=60
timeout $((wait_s + seconds + 30)) "$bin/modelctl" watch --json --require --record "$work/recording" --seconds $seconds --wait $wait_s \
  >"$work/summary.json" 2>"$work/watch.log" & watcher=$!; pids+=($watcher)
sleep 0.5
"$bin/modelcam" --source synth >"$work/modelcam.log" 2>&1 & pids+=($!)

timeout $((wait_s + seconds + 30)) "$bin/modelctl" watch --seconds $seconds --wait $wait_s || die "no outputs to show"
ok=1
wait $watcher || { ok=0; cat "$work/watch.log" >&2; }
[ -s "$work/summary.json" ] || die "modelctl watch gave no figures"
"$bin/modelctl" status || ok=0

step "the recording again, offline"
for role in road cabin; do
  printf '%-6s' $role
  timeout 300 "$bin/modelc" run "$work/$role.bundle" --device "$device" --replay "$work/recording" || ok=0
done
[ $ok = 1 ] || { echo "demo: the conditions above do not hold" >&2; tail -n 20 "$work/modeld.log" >&2; }

tail -n 1 "$work/summary.json"
[ $ok = 1 ]
