#!/usr/bin/env bash
# Makes a Debian package of a build without fault switches and simulators, and looks into it.
#   deploy/package.sh               dist/modeld_VERSION_ARCH.deb; the same commit gives the same bytes
#   deploy/package.sh --check       also installs, uses and purges it in a throw-away Debian 12 (needs root and a network)
#   deploy/package.sh --twice       also builds a clone of the commit elsewhere and compares the bytes
#   deploy/package.sh --self-proof  also plants defects into copies of it: what looks into it, and --check, must find each
# The machine itself gets no package of ours, only the tools that are missing (deploy/setup.sh).
set -euo pipefail
source "$(dirname "$0")/env.sh"

check=0 twice=0 proof=()
for arg in "$@"; do
  case "$arg" in
    --check) check=1 ;;
    --twice) twice=1 ;;
    --self-proof) proof=(--self-proof) ;;
    -h | --help) sed -n '2,7s/^# \{0,1\}//p' deploy/package.sh; exit 0 ;;
    *) echo "package: unknown option $arg (--check, --twice, --self-proof)" >&2; exit 2 ;;
  esac
done
./deploy/setup.sh
./deploy/setup.sh --package
if [ $check = 1 ]; then ./deploy/setup.sh --chroot; fi

builddir=build-package out=dist
programs=(models/tools/modelc ipc/tools/modelctl ipc/tools/modelcam daemon/modeld daemon/modeld-unavailable selftest/boot/modeld-selftest)
SOURCE_DATE_EPOCH=$(git log -1 --format=%ct)
export SOURCE_DATE_EPOCH LC_ALL=C TZ=UTC
umask 022
step() { echo "package: $*"; }
die() { echo "package: $*" >&2; exit 1; }
stage=$(mktemp -d)
trap 'rm -rf "$stage"' EXIT

# ---- build ----

step "building without fault switches and simulators"
# Where it is built must not be seen in what is built.
[ -f "$builddir/build.ninja" ] || env -u CXXFLAGS -u CPPFLAGS -u LDFLAGS CC="ccache gcc" CXX="ccache g++" meson setup "$builddir" \
  --buildtype=release -Dsim=false -Dfaults=false \
  -Dcpp_args="['-ffile-prefix-map=$root=.', '-D_FORTIFY_SOURCE=2', '-fstack-protector-strong', '-fstack-clash-protection']" \
  -Dcpp_link_args="['-Wl,-z,relro,-z,now']" \
  >"$builddir.setup.log" 2>&1 ||
  { tail -30 "$builddir.setup.log" >&2; exit 1; }
rm -f "$builddir.setup.log"
ninja -C "$builddir" -j "$jobs" "${programs[@]}" >"$builddir/package.log" 2>&1 ||
  { grep -E 'error|FAILED|undefined' "$builddir/package.log" | head -20 >&2; tail -5 "$builddir/package.log" >&2; die "the build failed"; }
mkdir -p "$builddir/bin"
for p in "${programs[@]}"; do ln -sf "../$p" "$builddir/bin/$(basename "$p")"; done

# ---- the tree ----

arch=$(dpkg --print-architecture)
version=$(sed -n "s/^  version: '\(.*\)',$/\1/p" meson.build)+git$(git log -1 --format=%cd --date=format-local:%Y%m%d.%H%M%S).$(git rev-parse --short=9 HEAD)
[ -z "$(git status --porcelain --untracked-files=no)" ] || version=$version.changed
tree=$stage/tree
./deploy/install.sh --destdir "$tree" --prefix /usr --builddir "$builddir" >/dev/null
find "$tree/usr/bin" "$tree/usr/libexec" -type f -exec strip --strip-unneeded --remove-section=.comment --remove-section=.note {} +
doc=$tree/usr/share/doc/modeld
install -m 0644 deploy/debian/copyright "$doc/copyright"
{
  echo "modeld ($version) bookworm; urgency=medium"
  echo
  git log -1 --format='%s' | fold -s -w 72 | sed '1s/^/  * /; 1!s/^/    /; s/ *$//'
  echo
  echo " -- modeld <modeld@localhost>  $(date -u -R -d "@$SOURCE_DATE_EPOCH")"
} | gzip -9n >"$doc/changelog.gz"

mkdir -p "$stage/debian"
printf 'Source: modeld\n\nPackage: modeld\nArchitecture: any\n' >"$stage/debian/control"
mapfile -t binaries < <(find "$tree/usr/bin" "$tree/usr/libexec" -type f | sort)
depends=$(cd "$stage" && dpkg-shlibdeps -O "${binaries[@]}" 2>"$stage/shlibdeps.log" | sed -n 's/^shlibs:Depends=//p')
[ -n "$depends" ] || { cat "$stage/shlibdeps.log" >&2; die "no dependencies found"; }

mkdir "$tree/DEBIAN"
sed -e "s|@version@|$version|; s|@arch@|$arch|; s|@depends@|$depends|; s|@size@|$(du -k -s --apparent-size "$tree" | cut -f 1)|" \
  deploy/debian/control.in >"$tree/DEBIAN/control"
echo /etc/modeld/modeld.toml >"$tree/DEBIAN/conffiles"
for script in postinst prerm postrm; do install -m 0755 "deploy/debian/$script" "$tree/DEBIAN/$script"; done
(cd "$tree" && find usr -type f -print0 | sort -z | xargs -0 md5sum) >"$tree/DEBIAN/md5sums"

# ---- the package ----

deb=$out/modeld_${version}_$arch.deb
made=$stage/$(basename "$deb")
find "$tree" -print0 | xargs -0 touch --no-dereference --date="@$SOURCE_DATE_EPOCH"
dpkg-deb --root-owner-group --threads-max=1 -Zxz --build "$tree" "$made" >/dev/null
./deploy/debian/look_inside.sh "$made" "${proof[@]}"
mkdir -p "$out"
rm -f "$out"/modeld_*.deb
mv "$made" "$deb"
step "$deb, $(stat -c %s "$deb") bytes, sha256 $(sha256sum "$deb" | cut -d ' ' -f 1)"

if [ $twice = 1 ]; then
  [ -z "$(git status --porcelain --untracked-files=no)" ] || die "--twice: there are changes that a clone does not have"
  step "the same commit, cloned and built elsewhere"
  git clone -q "$root" "$stage/elsewhere"
  git -C "$stage/elsewhere" checkout -q "$(git rev-parse HEAD)"
  (unset CCACHE_BASEDIR; cd "$stage/elsewhere" && CCACHE_DISABLE=1 ./deploy/package.sh >"$stage/elsewhere.log" 2>&1) ||
    { tail -20 "$stage/elsewhere.log" >&2; die "the clone does not build"; }
  cmp "$deb" "$stage/elsewhere/$deb" || die "the clone gives other bytes"
  step "equal to the byte"
fi
if [ $check = 1 ]; then ./deploy/debian/check_in_chroot.sh "$deb" "${proof[@]}"; fi
