# Sourced by the checks of a package, for their self-proof.
# mutant DEB OUT EDIT: a copy of a package with one defect. EDIT runs in its unpacked tree; checksums are made anew unless it
# says sums=old.
mutant() {
  local tree
  tree=$(mktemp -d)
  dpkg-deb -R "$1" "$tree"
  (
    cd "$tree" && eval "$3"
    [ "${sums:-}" = old ] || find usr -type f -print0 | sort -z | xargs -0 md5sum >DEBIAN/md5sums
  )
  dpkg-deb --root-owner-group -Znone --build "$tree" "$2" >/dev/null
  rm -rf "$tree"
}
