#!/bin/sh
# Builds the libraries of the simulated driver into a directory. Needs gcc.
set -eu
if [ $# -ne 1 ]; then
    echo "usage: $0 OUTDIR" >&2
    exit 2
fi
src=$(dirname "$0")/src
mkdir -p "$1"
flags="-std=gnu11 -O2 -shared -fPIC -fvisibility=hidden -Wl,-Bsymbolic -Wall -Wextra -Werror"
${CC:-gcc} $flags -Wl,-soname,libnvidia-ml.so.1 -o "$1/libnvidia-ml.so" "$src/shim.c" "$src/exports.c" -lpthread -ldl
${CC:-gcc} $flags -Wl,-soname,libcuda.so.1 -o "$1/libcuda.so" "$src/cuda.c"
