# shellcheck shell=bash
# upgrade.sh: quick-start.sh runs it on a host with Docker 26 beside containerd 1.7, whose NRI is
# off, where the programs are installed. Docker 28 and containerd 2.1, whose NRI is on, take their
# place while a container runs: what a rule refuses is refused before and after, plugins of the
# directory that both NRIs have are called for the same containers, and doctor finds nothing.
mkdir -p /etc/docker /etc/nri/conf.d
echo '{"live-restore": true}' >/etc/docker/daemon.json
cat >/etc/nri/conf.d/rules.conf <<'END'
rules:
  - name: memory
    default: { memory.limit: 64Mi }
  - name: nothing called forbidden
    match: container.name == "forbidden"
    refuse: not on this host
END
echo 'env = { set = { HELLO = "from a plugin" } }' | sed '1i [create]' >/etc/nri/conf.d/10-adjust.conf
install -D target/release/nri-rules /usr/libexec/nri-container-runtime/plugins/rules
install -D target/release/examples/adjust /opt/nri/plugins/10-adjust
nrictl install docker --default
# As the quick start of rules says: doctor warns otherwise.
cat >>/etc/nri-container-runtime/config.toml <<'END'

[[plugin]]
match = "rules"
required = true
capabilities = []
no_new_privs = true
END
systemctl restart docker
nrictl plugin enable rules

# check WHEN: containers are refused and adjusted, and doctor finds nothing
check() {
  local output
  if output=$(docker run --rm --name forbidden busybox true 2>&1); then
    echo "$1: the forbidden container ran"
    return 1
  fi
  grep -q 'nothing called forbidden.*not on this host' <<<"$output" || { echo "$1: $output"; return 1; }
  output=$(docker run --rm busybox env)
  grep -qx 'HELLO=from a plugin' <<<"$output" || { echo "$1: not adjusted: $output"; return 1; }
  nrictl verify
  nrictl doctor || { echo "$1: doctor found problems"; return 1; }
  if nrictl doctor | grep -E '^(warning|problem)'; then return 1; fi
  echo "$1: refused and adjusted"
}

docker run -d --name web busybox sleep 1000
pid=$(docker inspect -f '{{.State.Pid}}' web)
check 'before'
nrictl restart
check 'after nrictl restart'
systemctl stop docker
systemctl stop containerd
install_engines sid
systemctl start containerd
systemctl start docker
docker version -f '{{.Server.Version}}'
kill -0 "$pid"
check 'after the upgrade'
nrictl restart
check 'after the upgrade and nrictl restart'
docker exec web env | grep -x 'HELLO=from a plugin'
docker restart -t 0 web
docker exec web env | grep -x 'HELLO=from a plugin'
check 'after a restart of the container'
nrictl explain web
docker rm -f web
