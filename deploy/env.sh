# Sourced by the other scripts: the checkout's root and the compiler cache's settings.
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cd "$root"
export CCACHE_SLOPPINESS=pch_defines,time_macros,include_file_mtime,include_file_ctime
export CCACHE_NOHASHDIR=1 CCACHE_BASEDIR=$root
jobs=$(nproc)
