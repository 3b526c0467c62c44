#!/usr/bin/env bash
# Looks into a package without installing it: what must be in it, what must not, names, modes, scripts.
#   deploy/debian/look_inside.sh FILE.deb
#   deploy/debian/look_inside.sh FILE.deb --self-proof   defects, one at a time, in a copy of it: each must be found
set -euo pipefail
deb=$(realpath "$1")
source "$(dirname "${BASH_SOURCE[0]}")/../env.sh"
source deploy/debian/mutant.sh
export LC_ALL=C
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
die() { echo "look: $*" >&2; exit 1; }

# Names that only a build with fault switches or simulators holds, from the sources that have them: of a switch the text that
# switches it, of a simulator its classes as the compiler writes them into what it makes (10NullDevice).
git grep -hoE 'fault::(on|value|number)\("[a-z0-9_]+"' -- hal runtime models ipc daemon ':!*_test.cc' |
  sed 's/.*"\(.*\)"/\1/' | sort -u >"$work/switches"
echo MODELD_FAULT >>"$work/switches"
git grep -hoE '^class [A-Za-z]+' -- hal/sim ':!*_test.cc' | while read -r _ name; do echo "${#name}$name"; done | sort -u >"$work/simulators"
[ "$(wc -l <"$work/switches")" -ge 4 ] || die "no fault switch is found in the sources"
[ "$(wc -l <"$work/simulators")" -ge 4 ] || die "no simulator is found in the sources"

# One line for every finding about a program.
program_findings() {
  local name=$1 program=$2
  strings -n 4 "$program" >"$work/strings"
  sed "s|^|$name knows the fault switch |" <(grep -ohwFf "$work/switches" "$work/strings" | sort -u)
  sed "s|^|$name holds the simulator |" <(grep -ohFf "$work/simulators" "$work/strings" | sort -u)
  sed "s|^|$name names where it was built: |" <(grep -m 3 -F "$root" "$work/strings"
    grep -m 3 -E '^/[^ ]+\.(cc|h|hpp|c\+\+)$' "$work/strings" | grep -v '^/usr/')
  readelf -d "$program" >"$work/dynamic" 2>/dev/null
  sed "s|^|$name looks for libraries in a place of its own: |" <(grep -E 'RPATH|RUNPATH' "$work/dynamic")
  grep -q 'BIND_NOW\|Flags:.* NOW' "$work/dynamic" || echo "$name binds lazily: its function table stays writable"
  readelf -hW "$program" 2>/dev/null | grep -q 'Type: *DYN' || echo "$name lies at a fixed address"
  readelf --dyn-syms -W "$program" >"$work/symbols" 2>/dev/null
  grep -q '__stack_chk_fail@' "$work/symbols" || echo "$name has no stack protector"
  grep -q '_chk@' <(grep -v __stack_chk_fail "$work/symbols") || echo "$name copies without the checks of the C library"
}

# One line for every finding about units, scripts and lists.
text_findings() {
  local tree=$1 file
  (cd "$tree" && md5sum --quiet -c DEBIAN/md5sums 2>&1 | sed 's/^/checksum: /')
  (cd "$tree" && find etc -type f -printf '/%p\n' | sort) | diff "$tree/DEBIAN/conffiles" - | sed -n 's/^[<>] /conffiles: /p'
  for file in postinst prerm postrm; do
    sh -n "$tree/DEBIAN/$file" 2>&1 | sed "s/^.*$file: /$file: /"
    grep -q '^set -e$' "$tree/DEBIAN/$file" || echo "$file: goes on after an error"
  done
  (cd "$tree" && grep -rnE '@[a-z]+@|/usr/local' usr/lib etc DEBIAN) | sed 's/^/not filled in: /'
  grep -rhoE 'file:/[^ ]+' "$tree/usr/lib/systemd" | sort -u | while IFS=: read -r _ file; do
    [ -e "$tree$file" ] || echo "a unit names $file, which is not in the package"
  done
}

findings() {
  local tree program
  tree=$(mktemp -d "$work/tree.XXXXXX")
  dpkg-deb -R "$1" "$tree"
  dpkg-deb -c "$1" | awk '{ print $1, $2, $6 }' | diff deploy/debian/contents - |
    sed -n 's/^>/contents, not wanted:/p; s/^</contents, missing:/p'
  find "$tree/usr/bin" "$tree/usr/libexec" -type f | sort | while read -r program; do
    program_findings "$(basename "$program")" "$program"
  done
  text_findings "$tree"
  rm -rf "$tree"
}

# defect WHAT-IS-FOUND EDIT
proven=0
defect() {
  mutant "$deb" "$work/mutant.deb" "$2"
  findings "$work/mutant.deb" >"$work/found" || true
  grep -q -e "$1" "$work/found" || die "self-proof: not found: $1 ($2)"
  proven=$((proven + 1))
}
# Code of a build that is not for packages, put behind a program of this one.
object() { g++ -std=c++20 -O2 -I"$root" -DMODELD_FAULTS=1 -DMODELD_SIM=1 -c "$1" -o "$2"; }

self_proof() {
  object hal/base/fault.cc "$work/fault.o"
  object hal/cpu/cpu_core.cc "$work/switch.o"
  object hal/sim/null_device.cc "$work/sim.o"
  printf 'extern const char* const here;\nconst char* const here = __FILE__;\nint main() {}\n' >"$work/here.cc"
  g++ "$work/here.cc" -o "$work/here" -Wl,-z,now
  g++ "$work/here.cc" -o "$work/lazy" -Wl,-z,lazy
  g++ "$work/here.cc" -o "$work/rpath" -Wl,-z,now,-rpath,/opt/lib
  g++ "$work/here.cc" -o "$work/fixed" -Wl,-z,now -no-pie
  defect 'modeld knows the fault switch MODELD_FAULT' "cat $work/fault.o >>usr/bin/modeld"
  defect 'modeld-selftest knows the fault switch cpu_hang_at' "cat $work/switch.o >>usr/bin/modeld-selftest"
  defect 'modeld holds the simulator 10NullDevice' "cat $work/sim.o >>usr/bin/modeld"
  defect 'modelcam names where it was built' "cat $work/here >usr/bin/modelcam"
  defect 'modelctl looks for libraries' "cat $work/rpath >usr/bin/modelctl"
  defect 'modelctl binds lazily' "cat $work/lazy >usr/bin/modelctl"
  defect 'modelctl lies at a fixed address' "cat $work/fixed >usr/bin/modelctl"
  defect 'modelctl has no stack protector' "cat $work/here >usr/bin/modelctl"
  defect 'modelctl copies without the checks' "cat $work/here >usr/bin/modelctl"
  defect 'not wanted: -rw-r--r-- root/root ./usr/bin/stray' 'echo >usr/bin/stray && chmod 0644 usr/bin/stray'
  defect 'not wanted: -rwsr-xr-x root/root ./usr/bin/modeld' 'chmod u+s usr/bin/modeld'
  defect 'not wanted: drwxrwxrwx root/root ./etc/modeld/keys.d/' 'chmod 0777 etc/modeld/keys.d'
  defect 'missing: .*70-modeld.rules' 'rm usr/lib/udev/rules.d/70-modeld.rules'
  defect 'conffiles: /etc/modeld/modeld.toml' ': >DEBIAN/conffiles'
  defect 'postinst: .*yntax error' 'echo "if" >>DEBIAN/postinst'
  defect 'postrm: goes on after an error' 'sed -i /^set\ -e/d DEBIAN/postrm'
  defect 'not filled in: usr/lib/systemd/system/modeld.service' 'sed -i s,=/usr/bin,=@bindir@, usr/lib/systemd/system/modeld.service'
  defect 'a unit names /usr/share/doc/modeld/READ.ME' 'sed -i s,README.md,READ.ME, usr/lib/systemd/system/*.service'
  defect 'checksum: usr/bin/modelctl' 'sums=old; echo >>usr/bin/modelctl'
}

found=$(findings "$deb")
[ -z "$found" ] || { echo "$found" >&2; die "$(basename "$deb"): $(wc -l <<<"$found") findings"; }
if [ "${2:-}" = --self-proof ]; then self_proof; fi
echo "look: $(wc -l <deploy/debian/contents) names, no finding; no fault switch of $(wc -l <"$work/switches")," \
  "no simulator class of $(wc -l <"$work/simulators")$([ $proven = 0 ] || echo "; $proven planted defects found")"
