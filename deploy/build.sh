#!/usr/bin/env bash
# Builds, and leaves every program in <build>/bin.
#   deploy/build.sh           ./build       g++ 12, release: everything
#   deploy/build.sh --programs          the same, but only the programs of the README
#   deploy/build.sh --san     ./build-san   clang-19, ASan + UBSan: libraries and unit tests
#   deploy/build.sh --tsan    ./build-tsan  clang-19, TSan: hal, ipc and daemon tests
#   deploy/build.sh --fuzz    ./build-fuzz  clang-19, libFuzzer entries
set -euo pipefail
source "$(dirname "$0")/env.sh"
kind=${1:-}
case "$kind" in
  -h | --help) sed -n '2,7s/^# \{0,1\}//p' deploy/build.sh; exit 0 ;;
esac
./deploy/setup.sh

# A precompiled header of clang names the folder it was made in, and when its source was written: clones do not share them, and a
# second clone in the same place may use the first one's.
clang=(env CC="ccache clang-19" CXX="ccache clang++-19")
clang_flags="-fno-omit-frame-pointer -Xclang -fno-pch-timestamp"
san_flags="$clang_flags -fno-sanitize-recover=undefined"
case "$kind" in
  --san | --tsan | --fuzz) unset CCACHE_NOHASHDIR ;;
esac
case "$kind" in
  "" | --programs) dir=build; setup=(env CC="ccache gcc" CXX="ccache g++" meson setup build --buildtype=release) ;;
  --san)
    dir=build-san
    setup=("${clang[@]}" meson setup build-san --buildtype=plain -Dcpp_args="-O1 -g1 $san_flags" -Db_sanitize=address,undefined
           -Db_lundef=false) ;;
  --tsan)
    dir=build-tsan
    setup=("${clang[@]}" meson setup build-tsan --buildtype=plain -Dcpp_args="-O1 -g1 $clang_flags" -Db_sanitize=thread
           -Db_lundef=false) ;;
  --fuzz)
    dir=build-fuzz
    setup=("${clang[@]}" meson setup build-fuzz --buildtype=plain -Dcpp_args="-O1 -g1 $san_flags" -Db_sanitize=address,undefined
           -Db_lundef=false -Dfuzz=true) ;;
  *) echo "build.sh: unknown option $kind (--programs, --san, --tsan, --fuzz)" >&2; exit 2 ;;
esac

[ -f "$dir/build.ninja" ] || "${setup[@]}" >"$dir.setup.log" 2>&1 || { tail -30 "$dir.setup.log" >&2; exit 1; }
rm -f "$dir.setup.log"
case "$kind" in
  --programs) targets=(models/tools/modelc ipc/tools/modelctl ipc/tools/modelcam daemon/modeld) ;;
  --san) targets=(unit_tests) ;;
  --tsan) targets=(tsan_tests) ;;
  --fuzz) targets=(fuzzers) ;;
  *) targets=() ;;
esac
ninja -C "$dir" -j "$jobs" "${targets[@]}"

# One place to find the programs, whatever folder they are built in.
mkdir -p "$dir/bin"
find "$dir" -path "$dir/bin" -prune -o -type f -executable ! -name '*_test' ! -name '*_probe' ! -name '*.so*' ! -path '*.p/*' ! -path '*/meson-*' -print |
  while read -r program; do ln -sf "../${program#"$dir"/}" "$dir/bin/$(basename "$program")"; done
