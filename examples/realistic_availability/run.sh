#!/usr/bin/env bash
# Run the whole study in this folder, which has phones.npz, and print its tables.
#
#   fedgs trace fetch flame phones.npz
#   bash run.sh [OPTIONS OF fedgs run]
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
if [ ! -f phones.npz ]; then
    echo "phones.npz is missing; fedgs trace fetch flame phones.npz downloads it" >&2
    exit 2
fi
for study in study time; do
    fedgs run "$here/$study.toml" --out "realistic-$study" "$@"
    python "$here/summary.py" "realistic-$study"
done
fedgs table realistic-time
