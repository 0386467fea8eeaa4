#!/bin/bash
# init.sh: process 1 of the guests. The root file system is / of the host, read-only. The script
# mounts an overlay with a tmpfs over it, the usual file systems, cgroup v2, and the output
# directory of the host on /out. Then it runs /out/cmd and writes the exit status to /out/rc. Where
# overlays cannot have the file system of the host, only /tmp, /run and /out are writable.
# Parameters on the kernel's command line: guest_mode=plain|systemd|qemu|qemu-systemd,
# guest_out=output directory (not for qemu), guest_modules=directory of the kernel's modules
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
export HOME=/root LANG=C.UTF-8 TERM=linux
mount -t proc proc /proc
read -ra words </proc/cmdline
for word in "${words[@]}"; do
  case $word in
    guest_mode=*) mode=${word#*=} ;;
    guest_out=*) out=${word#*=} ;;
    guest_modules=*) modules=${word#*=} ;;
  esac
done
mount -t tmpfs -o size=75% tmpfs /media
mkdir /media/{upper,work,root}

# module NAME: loads a kernel module, which may be compressed. It may also be part of the kernel.
module() {
  local file
  for file in "$modules/$1".ko "$modules/$1".ko.xz; do
    [ -e "$file" ] || continue
    case $file in
      *.xz) xz -dc "$file" >/media/module.ko ;;
      *) cp "$file" /media/module.ko ;;
    esac
    busybox insmod /media/module.ko
    rm -f /media/module.ko
  done
}
module fs/overlayfs/overlay
# The tests need a block device for io limits, and an I/O scheduler with weights.
module drivers/block/loop
module block/bfq
# Engines need bridges and /dev/fuse.
for name in net/llc/llc net/802/stp net/bridge/bridge drivers/net/veth fs/fuse/fuse; do
  module $name
done
root=/media/root
mount -t overlay overlay -o lowerdir=/,upperdir=/media/upper,workdir=/media/work $root ||
  echo 'guest: no overlay'
# bind DIR: makes a directory of the guest with the subdirectories and links of the host's DIR
bind() {
  local entry
  for entry in "$1"/*; do
    case $entry in
      /tmp | /run | /proc | /sys | /dev) mkdir -m 1777 "$root$entry"; continue ;;
    esac
    if [ -L "$entry" ]; then
      cp -P "$entry" "$root$entry"
    elif [ -d "$entry" ]; then
      mkdir "$root$entry"
      mount --bind "$entry" "$root$entry"
    fi
  done
}
# In Linux 5.10, an overlay can open only directories of hostfs.
if ! $root/usr/bin/true 2>/dev/null; then
  umount $root
  mount -t tmpfs tmpfs $root
  bind ''
  bind /tmp
fi
umount /proc
mount -t proc proc $root/proc
mount -t sysfs sysfs $root/sys
mount -t devtmpfs dev $root/dev
for link in fd:/proc/self/fd stdin:/proc/self/fd/0 stdout:/proc/self/fd/1 stderr:/proc/self/fd/2; do
  ln -sfn "${link#*:}" "$root/dev/${link%%:*}"
done
mkdir -p $root/out
case $mode in
  qemu*) mount -t virtiofs out $root/out ;;
  *) mount -t hostfs -o "$out" none $root/out ;;
esac
cd $root || exit

if [[ $mode = *systemd ]]; then
  # systemd starts one target with one service, and dbus, over which runtimes call systemd. Services
  # of the host are masked.
  cat >etc/systemd/system/guest.target <<'T'
[Unit]
Requires=guest.service dbus.socket
After=dbus.socket
T
  cat >etc/systemd/system/guest.service <<'T'
[Unit]
DefaultDependencies=no
Requires=dbus.socket
After=dbus.socket
[Service]
Type=oneshot
TimeoutStartSec=infinity
Environment=HOME=/root LANG=C.UTF-8
ExecStart=/bin/bash -c 'bash /out/cmd; echo $? >/out/rc'
ExecStopPost=/bin/sh -c 'sync; systemctl poweroff -ff'
StandardOutput=tty
StandardError=tty
TTYPath=/dev/console
T
  for unit in tmp.mount systemd-tmpfiles-setup.service systemd-tmpfiles-clean.timer \
    systemd-networkd.service systemd-udevd.service systemd-udev-trigger.service \
    containerd.service docker.service; do
    ln -sf /dev/null etc/systemd/system/$unit
  done
  pivot_root . media
  exec chroot . /lib/systemd/systemd --unit=guest.target --log-target=console \
    --log-level=warning --show-status=0
fi

mkdir -p dev/pts dev/shm dev/mqueue
mount -t devpts -o ptmxmode=666 devpts dev/pts
mount -t tmpfs shm dev/shm
mount -t mqueue mqueue dev/mqueue
mount -t tmpfs -o mode=755 run run
mount -t cgroup2 -o nsdelegate cgroup2 sys/fs/cgroup
pivot_root . media
exec chroot . /bin/bash -c 'ip link set lo up
bash /out/cmd
echo $? >/out/rc
sync
busybox poweroff -f
echo o >/proc/sysrq-trigger
sleep 10'
