#!/usr/bin/env bash
# Installs, uses and purges a package in a throw-away Debian 12 (mmdebstrap), never on the machine. As root; needs a network.
#   deploy/debian/check_in_chroot.sh FILE.deb
#   deploy/debian/check_in_chroot.sh FILE.deb --self-proof    also with defects, one at a time: each must be found
#   deploy/debian/check_in_chroot.sh FILE.deb --base DIR      in a copy of DIR, a Debian that has what the package depends on
# Twice from the start: in a bare folder, as images are made, and with its own systemd (use_it.sh), as on a vehicle. Compared
# before and after: every file's name, mode, owner and content, and with them all accounts.
set -euo pipefail
here=$(dirname "$(realpath "$0")")
deb=$(realpath "$1")
source "$here/mutant.sh"
shift
base='' proof=0
while [ $# -gt 0 ]; do
  case "$1" in
    --self-proof) proof=1 ;;
    --base) base=$(realpath "$2"); shift ;;
    *) echo "check: unknown option $1 (--self-proof, --base DIR)" >&2; exit 2 ;;
  esac
  shift
done
[ "$(id -u)" = 0 ] || { echo "check: needs root" >&2; exit 1; }
export DEBIAN_FRONTEND=noninteractive LC_ALL=C
umask 022
work=$(mktemp -d "${TMPDIR:-/tmp}/modeld-check.XXXXXX")
chroot=$work/chroot
trap 'rm -rf --one-file-system "$work"' EXIT
say() { echo "check: $*"; }
die() { echo "check: $*" >&2; exit 1; }
expect() { "${@:2}" >"$work/expect.log" 2>&1 || { grep FAIL "$work/expect.log" >&2 || true; tail -5 "$work/expect.log" >&2; die "$1"; }; }
expect_not() { if "${@:2}" >/dev/null 2>&1; then die "$1"; fi; }

# A Debian with what this package depends on, and nothing more, so that a forgotten dependency is missed. From the package
# sources of this machine that are Debian's.
make_base() {
  local depends sources
  depends=$(dpkg-deb -f "$1" Depends | sed 's/ *([^)]*)//g; s/ *|[^,]*//g; s/, */,/g')
  sources=$(apt-get indextargets --format 'deb $(REPO_URI) $(RELEASE) $(COMPONENT)' 'Created-By: Packages' 'Origin: Debian' | grep ' bookworm')
  mmdebstrap --quiet --variant=essential --include="$depends" bookworm "$2" - \
    <<<"${sources:-deb http://deb.debian.org/debian bookworm main}" >"$work/mmdebstrap.log" 2>&1 ||
    { tail -20 "$work/mmdebstrap.log" >&2; die "mmdebstrap failed"; }
}

# In namespaces of its own: whatever a maintainer script starts ends with it, and no mount stays.
inside() {
  unshare -mpf --mount-proc="$chroot/proc" chroot "$chroot" \
    /usr/bin/env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LC_ALL=C DEBIAN_FRONTEND=noninteractive "$@"
}

# Starts the folder's own systemd and runs a script as its last service; then it powers off. No network, no device of the machine.
boot() {
  local units=$chroot/etc/systemd/system
  install -m 0755 "$1" "$chroot/check/start"
  mkdir -p "$units/multi-user.target.wants"
  cat >"$units/check.service" <<'UNIT'
[Unit]
After=multi-user.target
[Service]
Type=oneshot
ExecStart=/check/start
ExecStopPost=/bin/systemctl poweroff --force --no-block
StandardOutput=file:/check/log
StandardError=file:/check/log
UNIT
  ln -sf ../check.service "$units/multi-user.target.wants/check.service"
  # In a /run of its own, where systemd-nspawn would leave its marks.
  unshare -m sh -c 'mount -t tmpfs tmpfs /run && exec "$@"' sh timeout 600 \
    systemd-nspawn --quiet --register=no --keep-unit --private-network --resolv-conf=off --timezone=off --link-journal=no \
    --console=pipe --directory="$chroot" /lib/systemd/systemd </dev/null >"$work/boot.log" 2>&1 || true
  forget_control_groups
}

# It leaves two empty ones beside that of this shell.
forget_control_groups() {
  local path
  grep -E '^0:|name=systemd' /proc/self/cgroup | cut -d : -f 3 | while read -r path; do
    find /sys/fs/cgroup{,/unified,/systemd}"$path"/{payload,supervisor} -depth -type d -exec rmdir {} + 2>/dev/null || true
  done
}

# Files with what tells them apart. Not counted: what every installation of any package, and every boot, writes.
inventory() {
  (cd "$chroot" && find . -path ./proc -prune -o -path ./check -prune -o \
    \( -path './var/lib/dpkg/*' -o -path './var/log/*' -o -path './var/cache/apt/*' -o -path './var/cache/debconf/*' \
    -o -path './var/cache/ldconfig/*' -o -path './var/lib/apt/*' -o -path './tmp/*' -o -path './run/systemd*' \
    -o -name 'passwd-' -o -name 'group-' -o -name 'shadow-' -o -name 'gshadow-' -o -name '.pwd.lock' \) -prune -o \
    -printf '%p %y %m %u:%g ' \( -type f -exec sha256sum -z {} \; -printf '\n' -o -printf '%l\n' \)) | tr -d '\0' | sort
}
fresh() {
  rm -rf --one-file-system "$chroot"
  cp -a "$base" "$chroot"
  mkdir "$chroot/check"
  cp "$deb" "$chroot/check/modeld.deb"
}
nothing_stays() {
  inventory >"$work/after"
  diff "$work/before" "$work/after" >"$work/diff" || { cat "$work/diff" >&2; die "$1: the purge leaves something, or took what was not ours"; }
}

# One of its items takes times, and other work of this machine takes time as well: three tries.
selftest() {
  local try
  for try in 1 2 3; do
    if inside setpriv --reuid=modeld --regid=modeld --init-groups modeld-selftest --config /etc/modeld/modeld.toml; then return 0; fi
  done
  return 1
}

in_a_bare_folder() {
  local p
  say "in a bare folder"
  fresh
  inventory >"$work/before"
  expect "dpkg -i fails" inside dpkg -i /check/modeld.deb
  for p in modeld modelc modelctl modelcam modeld-selftest /usr/libexec/modeld/modeld-unavailable; do
    expect "$p --help fails" inside "$p" --help
  done
  for p in /run/modeld /var/lib/modeld /var/cache/modeld; do expect "modeld may not write to $p" inside setpriv --reuid=modeld --regid=modeld --clear-groups test -w "$p"; done
  # A key that it does not know is a warning only.
  expect "the units are not in order" inside sh -c '! systemd-analyze verify --man=no modeld.service modeld-selftest.service modeld-unavailable.service 2>&1 | grep .'
  expect_not "it was enabled" inside systemctl is-enabled modeld.service
  # The whole way from a model to its numbers, with nothing but the package; then the self-test, with the rights of the service.
  for p in road cabin; do
    expect "modelc reference fails" inside modelc reference $p --size tiny --dtype f32 -o /check/$p.onnx
    expect "modelc build fails" inside modelc build /check/$p.onnx --target cpu --role $p --renderer x86 -o /check/$p.bundle
    expect "modelc run fails" inside modelc run /check/$p.bundle --seed 1 --repeat 3
  done
  cp "$chroot"/check/*.bundle "$chroot/var/lib/modeld/"
  cp "$chroot"/check/*.bundle "$work/"
  expect "the boot self-test fails" selftest
  expect "dpkg -i over itself fails" inside dpkg -i /check/modeld.deb
  expect "dpkg -P fails" inside dpkg -P modeld
  if grep -i -E 'warning|error|not empty' "$work/expect.log"; then die "the purge complains"; fi
  nothing_stays "in a bare folder"
}

with_its_systemd() {
  say "with its own systemd"
  fresh
  printf '#!/bin/sh\necho done\n' >"$work/nothing"
  boot "$work/nothing"
  [ "$(cat "$chroot/check/log" 2>/dev/null)" = done ] || { tail -5 "$work/boot.log" >&2; die "the throw-away Debian does not boot"; }
  inventory >"$work/before"
  cp "$work"/*.bundle "$chroot/check/"
  mutant "$deb" "$chroot/check/newer.deb" "sed -i 's/^Version: .*/&.newer/' DEBIAN/control; echo '# newer' >>etc/modeld/modeld.toml"
  boot "$here/use_it.sh"
  sed '/^done$/d' "$chroot/check/log"
  [ "$(tail -n 1 "$chroot/check/log")" = done ] || die "$(grep '^FAILED' "$chroot/check/log" || echo 'it did not come to its end')"
  nothing_stays "with its own systemd"
}

# defect WHAT-IS-SAID EDIT [BASE]
proven=0
defect() {
  mutant "$deb" "$work/mutant.deb" "$2"
  if "$0" "$work/mutant.deb" --base "${3:-$base}" >"$work/proof.log" 2>&1; then die "self-proof: nothing is found: $2"; fi
  grep -q -e "$1" "$work/proof.log" || { tail -20 "$work/proof.log" >&2; die "self-proof: not found: $1 ($2)"; }
  proven=$((proven + 1))
  say "found: $1"
}

# Each defect in a package of its own; what is said must name it.
self_proof() {
  defect 'modelctl --help fails' "printf '#!/bin/sh\nexit 1\n' >usr/bin/modelctl"
  defect 'Failed to resolve user .modeld.' "sed -i /systemd-sysusers/d DEBIAN/postinst"
  defect 'modeld may not write to /var/lib/modeld' "sed -i '/var.lib.modeld/s/modeld modeld/root root/' usr/lib/tmpfiles.d/modeld.conf"
  defect 'the units are not in order' "sed -i s/^KillMode=/KilMode=/ usr/lib/systemd/system/modeld.service"
  defect 'it was enabled' "echo 'systemctl enable modeld.service' >>DEBIAN/postinst"
  defect 'var/lib/modeld' "sed -i 's, /var/lib/modeld , ,' DEBIAN/postrm"
  defect 'etc/stray' "echo 'touch /etc/stray' >>DEBIAN/postinst"
  defect 'etc/group' "sed -i /groupdel/d\;/userdel/d DEBIAN/postrm"
  defect 'etc/issue' "echo 'rm -f /etc/issue' >>DEBIAN/postrm"
  defect 'udev complains' "echo 'NO_SUCH_KEY==\"1\"' >>usr/lib/udev/rules.d/70-modeld.rules"
  defect 'it was started' "echo '[ ! -d /run/systemd/system ] || systemctl start modeld.service' >>DEBIAN/postinst"
  defect 'it does not start' "sed -i s,^ReadWritePaths=.*,InaccessiblePaths=/run/modeld, usr/lib/systemd/system/modeld.service"
  defect 'both models READY' "printf '#!/bin/sh\n[ \"\$1\" = --help ] || exec sleep 600\n' >usr/bin/modelcam"
  defect 'reload fails' "sed -i 's,^ExecReload=.*,ExecReload=/bin/false,' usr/lib/systemd/system/modeld.service"
  defect 'another daemon after the upgrade' "sed -i /try-restart/d DEBIAN/postinst"
  defect 'the configuration was overwritten' ": >DEBIAN/conffiles"
  defect 'the upgrade started it' "sed -i s/try-restart/restart/ DEBIAN/postinst"
  defect 'a process is left' "printf '#!/bin/sh\n' >DEBIAN/prerm"
  # A library that is not there after all: in a Debian of its own.
  mutant "$deb" "$work/poor.deb" "sed -i 's/, libzmq5[^,]*//' DEBIAN/control"
  make_base "$work/poor.deb" "$work/poor"
  defect 'modeld --help fails' "sed -i 's/, libzmq5[^,]*//' DEBIAN/control" "$work/poor"
}

if [ -z "$base" ]; then
  say "a Debian 12 with what the package depends on"
  base=$work/base
  make_base "$deb" "$base"
fi
in_a_bare_folder
with_its_systemd
if [ $proof = 1 ]; then self_proof; fi
say "installed, used, upgraded, removed and purged: $(wc -l <"$work/after") files as before" \
  "$([ $proven = 0 ] || echo "; $proven planted defects found")"
