#!/usr/bin/env bash
# Installs and purges a package in a throw-away Debian 12 made with mmdebstrap, from this machine's own package sources.
#   deploy/debian/check_in_chroot.sh FILE.deb
# Compared before and after: every file's name, mode, owner and content, and all accounts. As root; needs a network.
set -euo pipefail
deb=$(realpath "$1")
[ "$(id -u)" = 0 ] || { echo "check: needs root" >&2; exit 1; }
work=$(mktemp -d "${TMPDIR:-/tmp}/modeld-chroot.XXXXXX")
chroot=$work/chroot
trap 'rm -rf --one-file-system "$work"' EXIT
say() { echo "check: $*"; }
die() { echo "check: $*" >&2; exit 1; }
export DEBIAN_FRONTEND=noninteractive LC_ALL=C

depends=$(dpkg-deb -f "$deb" Depends | sed 's/ *([^)]*)//g; s/, */,/g; s/ *|[^,]*//g')
sources=(/etc/apt/sources.list.d/*.sources /etc/apt/sources.list)
for s in "${sources[@]}"; do [ -e "$s" ] && mirrors+=("$s"); done
say "a Debian 12 with what the package depends on"
mmdebstrap --quiet --variant=minbase --include="$depends" bookworm "$chroot" "${mirrors[@]}" >"$work/mmdebstrap.log" 2>&1 ||
  { tail -20 "$work/mmdebstrap.log" >&2; die "mmdebstrap failed"; }

# In namespaces of its own: whatever a maintainer script starts ends with it, and no mount stays.
inside() { unshare -mpf --mount-proc="$chroot/proc" chroot "$chroot" /usr/bin/env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LC_ALL=C DEBIAN_FRONTEND=noninteractive "$@"; }

# Files with what tells them apart. Not counted: what every installation of any package writes.
inventory() {
  (cd "$chroot" && find . -path ./proc -prune -o \
    \( -path './var/lib/dpkg/*' -o -path './var/log/*' -o -path './var/cache/apt/*' -o -path './var/cache/debconf/*' \
    -o -path './var/cache/ldconfig/*' -o -path './var/lib/apt/*' -o -path './tmp/*' \
    -o -name 'passwd-' -o -name 'group-' -o -name 'shadow-' -o -name 'gshadow-' -o -name '.pwd.lock' \) -prune -o \
    -printf '%p %y %m %u:%g ' \( -type f -exec sha256sum -z {} \; -printf '\n' -o -printf '%l\n' \)) | tr -d '\0' | sort
}

expect() { "${@:2}" >/dev/null 2>&1 || die "$1"; }
expect_not() { if "${@:2}" >/dev/null 2>&1; then die "$1"; fi; }

inventory >"$work/before"
cp "$deb" "$chroot/tmp/modeld.deb"

say "installing"
inside dpkg -i /tmp/modeld.deb >"$work/install.log" 2>&1 || { tail -20 "$work/install.log" >&2; die "dpkg -i failed"; }
for p in modeld modelc modelctl modelcam modeld-selftest; do expect "$p --help fails" inside "$p" --help; done
expect "modeld-unavailable --help fails" inside /usr/libexec/modeld/modeld-unavailable --help
expect "no user modeld" inside getent passwd modeld
expect "no /run/modeld" test -d "$chroot/run/modeld"
expect "the units are not in order" inside systemd-analyze verify --man=no modeld.service modeld-selftest.service modeld-unavailable.service
expect_not "it was enabled" inside systemctl is-enabled modeld.service
# udev reads every rule, and has nothing to say of ours.
unshare -m sh -c "mount --rbind /sys '$chroot/sys' && chroot '$chroot' udevadm test --action=add /class/mem/null" >"$work/udev.log" 2>&1 || true
grep -q 'Reading rules file: /usr/lib/udev/rules.d/70-modeld.rules' "$work/udev.log" || { tail -5 "$work/udev.log" >&2; die "udev does not read the rules"; }
if grep '70-modeld.rules:' "$work/udev.log"; then die "udev complains of the rules"; fi
# A bundle is made, signed off and run by the installed programs, as the service's user where it matters.
inside modelc reference cabin --size tiny --dtype f32 -o /tmp/m.onnx >/dev/null
inside modelc build /tmp/m.onnx --target cpu --role cabin --renderer x86 -o /var/lib/modeld/cabin.bundle >/dev/null
printf '[model.cabin]\nbundle = "/var/lib/modeld/cabin.bundle"\nprepare = "never"\n' >"$chroot/etc/modeld/modeld.toml"
inside chown -R modeld: /var/lib/modeld
inside setpriv --reuid=modeld --regid=modeld --init-groups modeld-selftest --config /etc/modeld/modeld.toml --suite boot | sed 's/^/  /'
rm -f "$chroot"/tmp/m.onnx

say "installing it again keeps the owner's configuration"
inside dpkg -i --force-confold /tmp/modeld.deb >"$work/again.log" 2>&1 || { tail -20 "$work/again.log" >&2; die "the second dpkg -i failed"; }
grep -q '^\[model.cabin\]$' "$chroot/etc/modeld/modeld.toml" || die "the configuration was overwritten"
inside systemctl enable modeld.service >/dev/null 2>&1 || die "systemctl enable failed"

say "removing keeps configuration and bundles"
inside dpkg -r modeld >"$work/remove.log" 2>&1 || { tail -20 "$work/remove.log" >&2; die "dpkg -r failed"; }
expect "the bundle is gone" test -e "$chroot/var/lib/modeld/cabin.bundle"
expect "the configuration is gone" test -e "$chroot/etc/modeld/modeld.toml"
expect_not "a program stays" test -e "$chroot/usr/bin/modeld"

say "purging"
inside dpkg -P modeld >"$work/purge.log" 2>&1 || { tail -20 "$work/purge.log" >&2; die "dpkg -P failed"; }
grep -i -E 'warning|error|not empty' "$work/purge.log" && die "the purge complains"
rm -f "$chroot/tmp/modeld.deb"
inventory >"$work/after"
diff -u "$work/before" "$work/after" || die "the purge leaves something, or took something that was not ours"
say "$(wc -l <"$work/after") files as before: nothing of ours stays"
