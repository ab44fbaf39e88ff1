#!/bin/sh
# Builds the Debian package: build.sh PIP WHEEL LOCK FOLDER. PIP is a pip whose Python is Debian's.
#
# The package has an environment of its own, /usr/lib/metaquorum, whose Python is the system's: the
# libraries are those of the lock, and meet none of the system's. They and the compiled wheel are
# for one minor release of Python, which the package names as its dependency.
set -eu
pip=$1 wheel=$2 lock=$3 out=$4
here=$(dirname "$0") source=$(dirname "$0")/../..
python=/usr/bin/python3
root=$out/root
lib=$root/usr/lib/metaquorum

rm -rf "$root"
install -d "$root/DEBIAN" "$root/usr/bin" "$root/usr/lib/systemd/system" "$root/etc/metaquorum" \
    "$root/usr/share/doc/metaquorum/examples"
"$python" -m venv --without-pip "$lib"
"$pip" --python "$lib/bin/python" install --quiet --disable-pip-version-check --require-hashes -r "$lock"
"$pip" --python "$lib/bin/python" install --quiet --disable-pip-version-check --no-deps --no-index \
    "$wheel"

# What was written for this machine: activation scripts, and the path of the staging folder.
find "$lib/bin" -mindepth 1 ! -name 'python*' -delete
rm -f "$lib/.gitignore" "$lib/lib64"
find "$lib" -name direct_url.json -delete
printf 'home = /usr/bin\ninclude-system-site-packages = false\nversion = %s\n' \
    "$("$python" -c 'import platform; print(platform.python_version())')" >"$lib/pyvenv.cfg"
for program in metaquorum metadata-quorum reassign-partitions; do
    printf '#!/usr/lib/metaquorum/bin/python3 -P\nfrom metaquorum.admin.cli.main import %s\n\n%s()\n' \
        "$(echo "$program" | tr - _)" "$(echo "$program" | tr - _)" >"$root/usr/bin/$program"
    chmod 0755 "$root/usr/bin/$program"
done
# Compiled again where it is going to be: a traceback names the installed file.
find "$lib" -name __pycache__ -type d -prune -exec rm -rf {} +
"$python" -m compileall -q -s "$root" -p / "$lib/lib"

install -m 0644 "$here/../systemd/metaquorum@.service" "$root/usr/lib/systemd/system/"
install -m 0644 "$here/copyright" "$source"/docs/*.md "$source/README.md" \
    "$root/usr/share/doc/metaquorum/"
install -m 0644 "$here/controller.properties" "$root/usr/share/doc/metaquorum/examples/"
for script in postinst prerm postrm; do
    install -m 0755 "$here/$script" "$root/DEBIAN/$script"
done

version=$(basename "$wheel" | cut -d- -f2)
next=$("$python" -c 'import sys; print(f"3.{sys.version_info[1] + 1}")')
sed -e "s/@VERSION@/$version/" -e "s/@ARCHITECTURE@/$(dpkg --print-architecture)/" \
    -e "s/@PYTHON@/$("$python" -c 'import sys; print(f"3.{sys.version_info[1]}")')/" \
    -e "s/@PYTHON_NEXT@/$next/" -e "s/@KIB@/$(du -sk "$root" | cut -f1)/" \
    "$here/control" >"$root/DEBIAN/control"
dpkg-deb --root-owner-group --build "$root" "$out/metaquorum_${version}_$(dpkg --print-architecture).deb"
