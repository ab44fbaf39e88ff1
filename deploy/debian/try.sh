#!/bin/sh
# Installs the package, asks it, removes and purges it: try.sh DEB. Needs root.
#
# All of it happens in a copy of this system that forgets what is written: in a mount namespace of
# its own, below an overlay in memory, with a loopback of its own. Nothing of this machine changes.
set -eu
if [ "${2:-}" != inside ]; then
    exec unshare --mount --pid --net --fork "$0" "$(realpath "$1")" inside
fi
deb=$1
ip link set lo up
base=$(mktemp -d)
mount -t tmpfs tmpfs "$base"
mkdir "$base/upper" "$base/work" "$base/root"
mount -t overlay overlay -o "lowerdir=/,upperdir=$base/upper,workdir=$base/work" "$base/root"
mount -t proc proc "$base/root/proc"
mount --bind /dev "$base/root/dev"
mount -t tmpfs tmpfs "$base/root/run"
mkdir "$base/root/run/given"
cp "$deb" "$base/root/run/given/metaquorum.deb"
cat >"$base/root/run/given/inside" <<'INSIDE'
set -eu
PATH=/usr/sbin:/usr/bin:/sbin:/bin
export PATH DEBIAN_FRONTEND=noninteractive
cd /
dpkg --install /run/given/metaquorum.deb
metaquorum --version
metadata-quorum --help >/dev/null
getent passwd metaquorum
stat -c '%A %U:%G %n' /etc/metaquorum
systemd-analyze verify --man=no /usr/lib/systemd/system/metaquorum@.service

# A node with the example's settings, as the unit would start it.
name=controller-1
sed 's/10\.0\.0\.[123]/127.0.0.1/; s/^quorum.voters=.*/quorum.voters=1/' \
    /usr/share/doc/metaquorum/examples/controller.properties >/etc/metaquorum/$name.properties
chgrp metaquorum /etc/metaquorum/$name.properties
install -d -o metaquorum -g metaquorum -m 0700 /var/lib/metaquorum
setpriv --reuid=metaquorum --regid=metaquorum --init-groups \
    metaquorum start --config /etc/metaquorum/$name.properties 2>/run/given/log &
node=$!
metadata-quorum --bootstrap-controller 127.0.0.1:9093 describe --status || { cat /run/given/log; exit 1; }
kill $node
wait $node

dpkg --remove metaquorum
test ! -e /usr/bin/metaquorum
test ! -e /usr/lib/metaquorum
test -e /etc/metaquorum/$name.properties
dpkg --purge metaquorum
test -d /var/lib/metaquorum/$name
test ! -e /usr/share/doc/metaquorum
echo "installed, run, removed and purged"
INSIDE
exec chroot "$base/root" sh /run/given/inside
