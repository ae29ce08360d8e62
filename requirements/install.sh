#!/bin/sh
# install.sh PYTHON FOLDER NAME: create a virtual environment in FOLDER, install requirements/build.txt and
# requirements/NAME.txt with checked hashes, and install Ash as editable.
set -eu
"$1" -c 'import sys; sys.exit(sys.version_info < (3, 11))' || {
    echo "Ash needs Python 3.11 or newer; '$1' is $("$1" --version 2>&1). Name another with: make PYTHON=python3.12 ..." >&2
    exit 1
}
if [ ! -x "$2"/bin/pip ]; then
    echo "Setting up $2 (once)"
    "$1" -m venv "$2" || {
        echo "Python could not create a virtual environment (on Debian: apt install python3-venv)." >&2
        exit 1
    }
fi
# Separate, because the lists may pin different versions of a package; the second replaces the first.
for list in build "$3"; do
    "$2"/bin/pip install --quiet --disable-pip-version-check --require-hashes --no-deps -r "requirements/$list.txt"
done
"$2"/bin/pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
