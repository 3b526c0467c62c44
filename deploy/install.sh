#!/usr/bin/env bash
# Installs programs, service, example configuration, user and directories from ./build. As root, or into --destdir.
#   deploy/install.sh [--prefix /usr/local] [--destdir DIR] [--builddir build]
# An existing /etc/modeld/modeld.toml is kept: the new one lies beside it as modeld.toml.new.
set -euo pipefail
source "$(dirname "$0")/env.sh"

prefix=/usr/local destdir= builddir=build
while [ $# -gt 0 ]; do
  case "$1" in
    --prefix | --destdir | --builddir)
      [ $# -ge 2 ] || { echo "install: $1 needs a value" >&2; exit 2; }
      case "$1" in --prefix) prefix=$2 ;; --destdir) destdir=$2 ;; --builddir) builddir=$2 ;; esac
      shift 2 ;;
    -h | --help) sed -n '2,4s/^# \{0,1\}//p' "$0"; exit 0 ;;
    *) echo "install: unknown option $1 (--prefix, --destdir, --builddir)" >&2; exit 2 ;;
  esac
done
case "$prefix" in /*) ;; *) echo "install: --prefix $prefix: want an absolute path" >&2; exit 2 ;; esac

programs=(modeld modelc modelctl modelcam modeld-selftest)
units=(modeld.service modeld-selftest.service modeld-unavailable.service)
for p in "${programs[@]}" modeld-unavailable; do
  [ -x "$builddir/bin/$p" ] || { echo "install: $builddir/bin/$p is missing: run deploy/build.sh first" >&2; exit 1; }
done

bindir=$prefix/bin libexecdir=$prefix/libexec/modeld docdir=$prefix/share/doc/modeld schemadir=$prefix/share/modeld/schema
install -d "$destdir$bindir" "$destdir$libexecdir" "$destdir$docdir/examples" "$destdir$schemadir" "$destdir/etc/modeld/keys.d" \
  "$destdir/usr/lib/systemd/system" "$destdir/usr/lib/udev/rules.d" "$destdir/usr/lib/sysusers.d" "$destdir/usr/lib/tmpfiles.d"
for p in "${programs[@]}"; do install -m 0755 "$builddir/bin/$p" "$destdir$bindir/$p"; done
install -m 0755 "$builddir/bin/modeld-unavailable" "$destdir$libexecdir/modeld-unavailable"
install -m 0644 README.md "$destdir$docdir/README.md"
# What a consumer of the messages compiles against.
install -m 0644 ipc/schema/*.capnp "$destdir$schemadir"
install -m 0644 deploy/modeld-usb.conf "$destdir$docdir/examples/modeld-usb.conf"

for unit in "${units[@]}"; do
  at=$destdir/usr/lib/systemd/system/$unit
  sed -e "s|@bindir@|$bindir|; s|@libexecdir@|$libexecdir|; s|@docdir@|$docdir|; s|@sysconfdir@|/etc|" "deploy/$unit.in" >"$at.new"
  chmod 0644 "$at.new" && mv "$at.new" "$at"
done
install -m 0644 deploy/70-modeld.rules "$destdir/usr/lib/udev/rules.d/70-modeld.rules"
install -m 0644 deploy/modeld.sysusers "$destdir/usr/lib/sysusers.d/modeld.conf"
install -m 0644 deploy/modeld.tmpfiles "$destdir/usr/lib/tmpfiles.d/modeld.conf"
config=$destdir/etc/modeld/modeld.toml
if [ -e "$config" ] && ! cmp -s deploy/modeld.toml "$config"; then config=$config.new; fi
install -m 0644 deploy/modeld.toml "$config"

if [ -z "$destdir" ]; then
  systemd-sysusers /usr/lib/sysusers.d/modeld.conf
  systemd-tmpfiles --create /usr/lib/tmpfiles.d/modeld.conf
  if [ -d /run/systemd/system ]; then systemctl daemon-reload; fi
fi
echo "installed ${programs[*]} in $destdir$bindir, configuration $config"
echo "next: put road.bundle and cabin.bundle into /var/lib/modeld, then systemctl enable --now modeld"
