# shellcheck shell=bash disable=SC2154
# machine.sh: functions of quick-start.sh, which sources it: the machine on which it follows
# documents. The caller is in namespaces of its own, and sets root (of the repository), work (an empty
# directory), name, suite and engines.

# machine: makes /etc, /opt, /run, /usr and /var private, installs the engines and starts them
machine() {
  mount -t tmpfs machine "$work"
  # What is below directories that become private is mounted before. Commands of documents write
  # into a copy of the checkout; only what they build stays.
  mkdir -p "$work"/{engines,checkout,checkout.upper,checkout.work,built} \
    "$root"/target/integration/documents
  mount --bind "$NRI_ENGINES" "$work/engines"
  mount -t overlay checkout "$work/checkout" \
    -o "lowerdir=$root,upperdir=$work/checkout.upper,workdir=$work/checkout.work"
  mount --bind "$root/target" "$work/checkout/target"
  mount --bind "$root/target/integration/documents" "$work/built"
  local dir
  for dir in etc opt usr var; do
    mkdir "$work/$dir.upper" "$work/$dir.work"
    mount -t overlay machine "/$dir" \
      -o "lowerdir=/$dir,upperdir=$work/$dir.upper,workdir=$work/$dir.work"
  done
  # Always the same paths, so that cargo builds the SDK once for all plugins of documents.
  mkdir -p "$NRI_ENGINES" /usr/local/src/{built,nri-container-runtime}
  mount --bind "$work/engines" "$NRI_ENGINES"
  mount --bind "$work/built" /usr/local/src/built
  mount --rbind "$work/checkout" /usr/local/src/nri-container-runtime
  mount -t tmpfs run /run
  mount -t tmpfs shm /dev/shm # has locks of Podman
  # Engines cannot make overlays whose upper directories are on an overlay.
  for dir in docker containerd containers; do
    mkdir -p "/var/lib/$dir"
    mount -t tmpfs "$dir" "/var/lib/$dir"
  done
  rm -rf /etc/{nri,docker,containerd,nri-container-runtime} /etc/containers/containers.conf* \
    /usr/local/bin/{nri-container-runtime,nrictl} /usr/{libexec,lib}/nri-container-runtime \
    /opt/nri /usr/bin/{runc,crun}
  ip link set lo up
  unset NRI_CONTAINER_RUNTIME_CONFIG NRI_CONTAINER_RUNTIME_PATH NRI_CONTAINER_RUNTIME_BYPASS
  local cargo
  cargo=$(dirname "$(command -v cargo || echo /usr/bin/cargo)")
  export HOME=/root LANG=C.UTF-8
  export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin:$cargo
  # Without a network, a plugin of the tutorial is built with the crates that are there.
  export CARGO_NET_OFFLINE=true
  install_engines "$suite"
  case $engines in
    podman) podman_machine ;;
    *) docker_machine ;;
  esac
  versions
}

# install_engines SUITE: what the packages of the engines install
install_engines() {
  local program
  for program in "$BIN/$1"/*; do
    rm -f /usr/local/{bin,sbin}/"${program##*/}"
    ln -sfn "$program" "/usr/sbin/${program##*/}"
  done
}

# versions: prints what the machine has
versions() {
  local text
  text=$(for program in ${engines/docker/dockerd} runc; do "$program" --version | sed -n 1p; done |
    paste -sd';')
  echo "== $name: ${text//;/; }; Linux $(uname -r)"
}

# left: prints files and processes of ours that are left on the machine
left() {
  (cd "$work" && find {etc,opt,usr,var}.upper /run -xdev \( -path '*nri*' -o -name nrid \) \
    -type f ! -path 'usr.upper/local/src/*' ! -path "*$NRI_ENGINES*")
  # nrid closes its connections before its process is gone.
  for _ in {1..100}; do
    pgrep nri >/dev/null || return 0
    sleep 0.1
  done
  pgrep -l nri || true
}

podman_machine() {
  rm -rf /etc/containers/registries.conf.d # has a registry for the name busybox
  mkdir -p /etc/containers
  cat >/etc/containers/containers.conf <<END
[network]
firewall_driver = "none"
[engine]
helper_binaries_dir = ["/usr/sbin"]
runtime = "runc"
END
  podman load -q -i "$IMAGES/docker-archive.tar" >/dev/null
  podman tag localhost/busybox:local busybox
}

docker_machine() {
  case $engines in
    *containerd*)
      mkdir /etc/containerd
      # As the package has it, or the one of Docker for `no-cri`.
      cp "$NRI_ENGINES/root/$suite/etc/containerd/config.toml" /etc/containerd
      case $name in
        *-no-cri) echo 'disabled_plugins = ["cri"]' >/etc/containerd/config.toml ;;
        *-nri)
          printf '  [plugins."io.containerd.nri.v1.nri"]\n    disable = false\n' \
            >>/etc/containerd/config.toml
          ;;
      esac
      start containerd
      ctr images import "$IMAGES/oci.tar" >/dev/null
      export IMAGE=localhost/busybox:local
      ;;
  esac
  start docker
  # shellcheck disable=SC2153 # IMAGES is of lib.sh
  docker load -q -i "$IMAGES/docker-archive.tar" >/dev/null
  docker tag localhost/busybox:local busybox
}

# systemctl start|stop|restart|reload docker|containerd
systemctl() {
  local pid=$work/$2.pid
  case $1 in
    start) start "$2" ;;
    stop) stop_pid "$pid" ;;
    restart)
      stop_pid "$pid"
      start "$2"
      ;;
    reload) kill -HUP "$(cat "$pid")"; sleep 1 ;;
    *) die "systemctl $1" ;;
  esac
}

# start docker|containerd: dockerd uses the containerd of the machine if there is one, as the unit
# of its package has it.
start() {
  local command=(containerd) client=ctr
  if [ "$1" = docker ]; then
    command=(dockerd --iptables=false --ip6tables=false) client=docker
    [ "$engines" = docker ] || command+=(--containerd=/run/containerd/containerd.sock)
  fi
  setsid "${command[@]}" >>"$work/$1.log" 2>&1 </dev/null &
  echo $! >"$work/$1.pid"
  wait_for 30 $client version || die "no $1: $(tail -3 "$work/$1.log")"
}
export work engines BIN
export -f systemctl start install_engines die wait_for stop_pid has_ended
