#!/usr/bin/env bash
# Before review: format of all files, tidy of changed ones, the number of NOLINT lines (it may only fall).
#   deploy/check.sh [BASE]    BASE: what counts as changed is all since this revision (default HEAD)
set -uo pipefail
source "$(dirname "$0")/env.sh"
base=${1:-HEAD}
rc=0

mapfile -t sources < <(git ls-files '*.cc' '*.h')
if ! clang-format-14 --dry-run -Werror "${sources[@]}" 2>&1 | head -40 | { ! grep .; }; then
  echo "check: run clang-format-14 -i on the files above"
  rc=1
fi

mapfile -t changed < <({ git diff --name-only --diff-filter=d "$base" -- '*.cc'; git ls-files --others --exclude-standard '*.cc'; } | sort -u)
if [ ${#changed[@]} -gt 0 ]; then
  [ -f build/compile_commands.json ] || ./deploy/build.sh
  # The precompiled header belongs to gcc; tidy reads the plain one.
  sed 's/-fpch-preprocess//g; s/-Winvalid-pch//g; s/-include gtest_pch.h/-include selftest\/testing\/gtest_pch.h/g; s/-Wno-restrict//g
       s/-Wno-stringop-over[a-z]*//g' build/compile_commands.json >build/tidy_commands.json
  mkdir -p build/tidy && mv build/tidy_commands.json build/tidy/compile_commands.json
  printf '%s\n' "${changed[@]}" | xargs -P "$jobs" -n 1 clang-tidy-14 -quiet -p build/tidy || rc=1
fi

nolint=$(git grep -n 'NOLINT' -- '*.cc' '*.h' | wc -l)
echo "check: $nolint NOLINT lines, ${#sources[@]} files formatted, ${#changed[@]} changed files tidied"
exit $rc
