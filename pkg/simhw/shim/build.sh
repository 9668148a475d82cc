#!/bin/sh
# Builds the libraries of the simulated driver into a directory, with some older
# versions of libnvidia-ml.so that lack the newer functions. Needs gcc.
set -eu
if [ $# -ne 1 ]; then
    echo "usage: $0 OUTDIR" >&2
    exit 2
fi
src=$(dirname "$0")/src
mkdir -p "$1"
flags="-std=gnu11 -O2 -shared -fPIC -fvisibility=hidden -Wl,-Bsymbolic -Wall -Wextra -Werror"
objects=$(mktemp -d)
trap 'rm -r "$objects"' EXIT
for part in shim exports; do
    ${CC:-gcc} $flags -c -o "$objects/$part.o" "$src/$part.c"
done
nvml() {
    out=$1
    shift
    ${CC:-gcc} $flags "$@" -Wl,-soname,libnvidia-ml.so.1 -o "$out" "$objects/shim.o" "$objects/exports.o" -lpthread -ldl
}
nvml "$1/libnvidia-ml.so"
for map in "$src"/nvml-*.map; do
    version=$(basename "$map" .map)
    nvml "$1/lib$version.so" "-Wl,--version-script=$map"
done
${CC:-gcc} $flags -Wl,-soname,libcuda.so.1 -o "$1/libcuda.so" "$src/cuda.c"
