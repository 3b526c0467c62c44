#!/usr/bin/env bash
# Installs what is missing to build, test and run: Debian 12 packages only. As root, or with sudo.
# Asks nothing, changes nothing when everything is there.
#   deploy/setup.sh             for all but packages
#   deploy/setup.sh --package   what deploy/package.sh needs on top
#   deploy/setup.sh --chroot    what its --check needs on top of that
set -euo pipefail

packages=(
  g++ clang-19 lld-19 libclang-rt-19-dev clang-format-14 clang-tidy-14
  meson ninja-build ccache pkg-config git ca-certificates
  libonnx-dev libprotobuf-dev protobuf-compiler
  capnproto libcapnp-dev libzmq3-dev
  libspdlog-dev libcli11-dev libtomlplusplus-dev nlohmann-json3-dev
  libsodium-dev libxxhash-dev zlib1g-dev libexpected-dev libsystemd-dev libseccomp-dev
  libgtest-dev libgmock-dev pocl-opencl-icd ocl-icd-libopencl1
  qemu-user
  systemd
)
case "${1:-}" in
  "") ;;
  -h | --help) sed -n '2,6s/^# \{0,1\}//p' "$0"; exit 0 ;;
  --package) packages=(dpkg-dev binutils) ;;
  --chroot) packages=(mmdebstrap debian-archive-keyring systemd-container) ;;
  *) echo "setup: unknown option $1 (--package, --chroot)" >&2; exit 2 ;;
esac

missing=()
for p in "${packages[@]}"; do
  [ "$(dpkg-query -W -f='${db:Status-Status}' "$p" 2>/dev/null)" = installed ] || missing+=("$p")
done
[ ${#missing[@]} -eq 0 ] && exit 0

as_root() { if [ "$(id -u)" = 0 ]; then "$@"; else sudo "$@"; fi; }
echo "setup: installing ${missing[*]}" >&2
export DEBIAN_FRONTEND=noninteractive
for try in 1 2 3; do
  if as_root apt-get -q update >&2 && as_root apt-get -q install -y --no-install-recommends "${missing[@]}" >&2; then exit 0; fi
  echo "setup: try $try failed" >&2
  sleep $((try * 5))
done
echo "setup: could not install ${missing[*]}" >&2
exit 1
