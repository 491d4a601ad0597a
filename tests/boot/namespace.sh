#!/bin/bash
# Starts systemd of the tree $1 as PID 1 of a machine of its own and waits for its end; $2 is its log, $3 a cgroup v2
# directory for it.  Killing that PID 1 is the power cut.
#
# Not systemd-nspawn: it leaves the host's own, unmasked /proc in the mount namespace, and units whose hardening keeps
# bubblewrap from mounting /proc then work in the test and fail on a real host.  Here the old root is detached before
# systemd starts.
set -eu
export TREE=$1
mkdir -p "$3"
echo $$ >"$3/cgroup.procs"
exec unshare --mount --pid --fork --kill-child --uts --ipc --cgroup --net bash -euc '
  mount --make-rprivate /
  mount --bind "$TREE" "$TREE"
  cd "$TREE"
  mount -t proc -o nosuid,nodev,noexec proc proc
  mount -t sysfs -o nosuid,nodev,noexec sysfs sys
  mount -t cgroup2 -o nosuid,nodev,noexec cgroup2 sys/fs/cgroup
  mount -t tmpfs -o mode=755 tmpfs dev
  mkdir dev/pts dev/shm
  for node in null zero full random urandom tty; do
    touch "dev/$node"
    mount --bind "/dev/$node" "dev/$node"
  done
  mount -t devpts -o newinstance,ptmxmode=666,mode=620 devpts dev/pts
  mount -t tmpfs -o mode=1777 tmpfs dev/shm
  ln -s pts/ptmx dev/ptmx
  ln -s /proc/self/fd dev/fd
  ln -s fd/0 dev/stdin
  ln -s fd/1 dev/stdout
  ln -s fd/2 dev/stderr
  mount -t tmpfs -o mode=755 tmpfs run
  mkdir -p oldroot
  pivot_root . oldroot
  umount -l /oldroot
  # Else the directories of LoadCredential= never show up in the units.
  mount --make-rshared /
  hostname blunix
  exec env -i container=other PATH=/usr/sbin:/usr/bin:/sbin:/bin \
    /lib/systemd/systemd --system --log-target=journal --show-status=0
' </dev/null >"$2" 2>&1
