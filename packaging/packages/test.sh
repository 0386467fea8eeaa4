#!/bin/bash
# test.sh PACKAGES [PROGRAMS]
#   Tests the packages of the directory PACKAGES (target/packages): their files, checksums and bills
#   of materials; installs, upgrades and removes them with dpkg and rpm, and runs a container with
#   runc. /etc, /opt, /run, /usr and /var are overlays in private namespaces, so the machine stays
#   as it is. With PROGRAMS, they are packages of these programs, which may name directories of
#   their build. Needs root on Debian, runc, and a static busybox. Without rpm, its tests are
#   skipped, or fail with CI=true.
set -euo pipefail
[ $# -ge 1 ] || { sed -n '2,/^[^#]/{s/^# \{0,1\}//p}' "$0" >&2; exit 2; }
here=$(cd "$(dirname "$0")" && pwd -P)
root=$(cd "$here/../.." && pwd -P)
name=nri-container-runtime
PATH=$PATH:/usr/local/sbin:/usr/sbin:/sbin
fail() { echo "FAILED: $*" >&2; exit 1; }
step() { echo "-- $*"; }

if [ "$1" != --inside ]; then
  packages=$(cd "$1" && pwd -P)
  work=$(mktemp -d)
  trap 'rm -rf "$work"' EXIT
  deb=$(echo "$packages/$name"_*.deb) rpm=$(echo "$packages/$name"-*.rpm)
  version=$(sed -n 's/^version = "\(.*\)"/\1/p' "$root/Cargo.toml")
  mkdir "$work/deb"

  step 'checksums'
  (cd "$packages" && sha256sum --quiet -c SHA256SUMS)

  step 'files of the .deb'
  dpkg-deb -x "$deb" "$work/deb"
  (cd "$work/deb" && find . ! -type d -printf '%m %P\n' | sort -k 2) >"$work/deb.list"
  for file in usr/bin/{$name,nrictl,nri-rules,nri-topology} \
    usr/libexec/$name/{nrid,nri-oci-hook,nri-wasm-host} usr/lib/$name/examples/adjust usr/libexec/$name/plugins/{logger,rules,ulimit-adjuster}; do
    grep -qx "755 $file" "$work/deb.list" || fail "$file is missing or not executable"
  done
  share=(lib/systemd/{system,user}/"$name".{service,socket} "lib/tmpfiles.d/$name.conf"
    "share/$name/config.toml" "share/$name/rules.schema.json"
    "share/$name/plugins/rules.conf" share/doc/"$name"/plugins/rules/cookbook/defaults.yaml
    share/doc/"$name"/{README.md,docs/reference/operations.md,THIRD-PARTY-LICENSES.gz}
    share/doc/"$name"/plugins/{logger/{sample.conf,logger.service},ulimit-adjuster/README.md}
    share/man/man8/{nrictl,nrictl-status}.8.gz share/bash-completion/completions/nrictl
    share/zsh/{vendor-completions,site-functions}/_nrictl
    share/fish/vendor_completions.d/nrictl.fish)
  bash -n "$work/deb/usr/share/bash-completion/completions/nrictl"
  for file in "${share[@]}"; do
    grep -qx "644 usr/$file" "$work/deb.list" || fail "usr/$file is missing, or its mode is not 644"
  done
  # What /etc has belongs to the administrator: a configuration there would make `nrictl install`
  # omit the policy of new installations.
  if grep ' \(etc\|opt\|run\|var\)/' "$work/deb.list"; then fail 'only /usr may have files'; fi
  dpkg-deb -f "$deb" Depends | grep -q libc6 || fail "dependencies: $(dpkg-deb -f "$deb" Depends)"
  "$work/deb/usr/libexec/$name/nrid" --check --config "$work/deb/usr/share/$name/config.toml" ||
    fail 'nrid does not accept the configuration'

  step 'no file names a directory of the build'
  for dir in "$root" "${CARGO_HOME:-$HOME/.cargo}"; do
    if grep -rlaF "$dir/" "$work/deb/usr/"${2:+share} "$packages"/*.cdx.json; then
      fail "$dir is in these files"
    fi
  done

  step 'licences'
  licenses=$work/deb/usr/share/doc/$name/THIRD-PARTY-LICENSES
  gzip -d "$licenses.gz"
  # Of nrid, of a plugin.
  for crate in tokio cel; do grep -q "^$crate-[0-9]" "$licenses" || fail "$crate is missing"; done
  grep -q '^Copyright (c) Tokio Contributors' "$licenses" || fail 'the text of tokio is missing'
  if grep '^\(nri-.*\|proptest\)-[0-9]' "$licenses"; then fail 'not of the programs'; fi

  step 'bills of materials'
  programs=("$name" nri-oci-hook nrid nrictl nri-wasm-host)
  for plugin in "$work/deb/usr/libexec/$name/plugins"/*; do programs+=("nri-${plugin##*/}"); done
  [ "$(wc -l <"$packages/SHA256SUMS")" = $((2 + ${#programs[@]})) ] ||
    fail 'SHA256SUMS does not list two packages and a bill for each program'
  for program in "${programs[@]}"; do
    bom=$packages/$program-$version.cdx.json
    grep -q '"bomFormat": "CycloneDX"' "$bom" || fail "$bom"
    grep -q '"name": "serde_json"' "$bom" || fail "$program uses serde_json"
  done
  grep -q '"name": "tokio"' "$packages/nrid-$version.cdx.json" || fail 'nrid uses tokio'
  if grep -q '"name": "tokio"' "$packages/$name-$version.cdx.json"; then
    fail 'the wrapper does not use tokio'
  fi
  if grep -q '"name": "proptest"' "$packages"/*.cdx.json; then fail 'no program uses proptest'; fi

  rpm_files() {
    rpm -qp --qf '[%{FILEMODES:octal} %{FILENAMES}\n]' "$rpm" | sed -n 's,^100\([0-7]* \)/,\1,p' |
      sort -k 2
  }
  if command -v rpm >/dev/null; then
    step 'the .rpm has the files of the .deb'
    rpm -K "$rpm" | grep -q 'digests.* OK$' || fail "$(rpm -K "$rpm")"
    # The copyright notice is in a form of Debian's.
    diff <(grep -v '/copyright$' "$work/deb.list") <(rpm_files) || fail 'other files'
    # Without -q, which would end rpm by SIGPIPE before its last line.
    rpm -qp --requires "$rpm" | grep '^libc.so.6' >/dev/null || fail "$(rpm -qp --requires "$rpm")"
  else
    echo 'SKIPPED .rpm: no rpm'
    [ "${CI:-}" != true ]
  fi

  mkdir "$work/private"
  # All processes end with process 1 of the namespace.
  "$root/integration/cgroups.sh" unshare --mount --pid --fork --kill-child --mount-proc \
    --propagation private "$0" --inside "$work/private" "$deb" "$rpm"
  echo passed
  exit
fi

work=$2 deb=$3 rpm=$4
mount -t tmpfs packages "$work"
for dir in etc opt usr var; do
  mkdir "$work/$dir.upper" "$work/$dir.work"
  mount -t overlay packages "/$dir" \
    -o "lowerdir=/$dir,upperdir=$work/$dir.upper,workdir=$work/$dir.work"
done
mount -t tmpfs packages /run
rm -rf /etc/nri /etc/docker /opt/nri "/etc/${name:?}" "/usr/libexec/$name" \
  /usr/local/bin/{"$name",nrictl}
unset NRI_CONTAINER_RUNTIME_CONFIG NRI_CONTAINER_RUNTIME_PATH NRI_CONTAINER_RUNTIME_BYPASS
output=$work/output
: >"$output"
fail() { cat "$output" >&2; echo "FAILED: $*" >&2; exit 1; }
run() { "$@" >"$output" 2>&1 || fail "$*"; }
has() { grep -q -- "$1" "$output" || fail "'$1' is missing"; }
lacks() { ! grep -q -- "$1" "$output" || fail "'$1'"; }
nrid() { nrictl status --json | grep -o '"pid":[0-9]\+' | sed -n '1s,.*:,,p'; }
nrid_runs() { pgrep -x nrid >/dev/null; }
# The fake systemctl records its calls; the directory says that systemd runs.
mkdir "$work/fake"
for program in systemctl systemd-tmpfiles; do
  cat >"$work/fake/$program" <<END
#!/bin/sh
echo "$program \$*" >>$work/calls
[ "\$2" != is-active ]
END
done
chmod 755 "$work"/fake/*
PATH=$work/fake:$PATH
systemd_runs() { mkdir -p /run/systemd/system; : >"$work/calls"; }
systemd_is_absent() { rm -rf /run/systemd; }
called() { grep -qx -- "$1" "$work/calls" || fail "$1 was not called: $(cat "$work/calls")"; }

# container ID: creates and starts a container, and prints its process
container() {
  "$root/integration/bundle.sh" "$work/$1" --cgroup "/nri-packages-$$-$1" \
    --root "$work/rootfs" -- sleep 1000
  $name create --bundle "$work/$1" "$1" </dev/null >"$output" 2>&1 || fail "create $1"
  run $name start "$1"
  $name state "$1" | grep -o '"pid": [0-9]\+' | sed 's/.* //'
}
# Whether the process of a container has the variable of the plugin.
adjusted() { tr '\0' '\n' <"/proc/$1/environ" | grep -qx PACKAGED=yes; }
dead() { ! alive "$1"; }
wait_until() {
  for _ in $(seq 200); do
    ! "$@" || return 0
    sleep 0.05
  done
  fail "not true within 10 s: $*"
}
alive() { grep -q '^State:[[:space:]][^ZX]' "/proc/$1/status" 2>/dev/null; }
# newer VERSION: makes the same package with another version and another nrid
newer() {
  rm -rf "$work/newer"
  dpkg-deb -R "$deb" "$work/newer"
  sed -i "s/^Version: .*/Version: $1/" "$work/newer/DEBIAN/control"
  echo >>"$work/newer/usr/libexec/$name/nrid"
  dpkg-deb --root-owner-group -Z gzip -z 1 -b "$work/newer" "$work/newer.deb" >/dev/null
}

step 'an installation starts nothing and configures no engine'
systemd_runs
run dpkg -i "$deb"
called 'systemctl daemon-reload'
called "systemd-tmpfiles --create $name.conf"
! grep -q 'enable\|start' "$work/calls" || fail "$(cat "$work/calls")"
! nrid_runs || fail 'nrid runs'
absent() { for file in "$@"; do [ ! -e "$file" ] || fail "$file exists"; done; }
absent /etc/$name /etc/docker /opt/nri
systemd_is_absent

step 'a container runs with runc, and an example plugin and a shipped one adjust it'
install -D /usr/lib/$name/examples/adjust /opt/nri/plugins/10-adjust
mkdir -p /etc/nri/conf.d
echo 'create = { env = { set = { PACKAGED = "yes" } } }' >/etc/nri/conf.d/10-adjust.conf
install -D /usr/libexec/$name/plugins/logger /opt/nri/plugins/20-logger
echo '{events: [CreateContainer], setEnv: LOGGER}' >/etc/nri/conf.d/20-logger.conf
first=$(container first)
adjusted "$first" || fail 'the plugin did not adjust the container'
tr '\0' '\n' <"/proc/$first/environ" | grep -q '^LOGGER=logger-pid-' ||
  fail 'the shipped plugin did not adjust the container'
before=$(nrid)
[ "$(readlink "/proc/$before/exe")" = /usr/libexec/$name/nrid ] || fail 'another nrid runs'

step 'a plugin that is enabled runs with its sample configuration, or with the one that exists'
conf=/etc/nri/conf.d/rules.conf sample=/usr/share/$name/plugins/rules.conf
run nrictl plugin enable rules
cmp "$sample" "$conf" || fail 'the sample configuration was not copied'
run nrictl plugins
has '^50  *rules  *launched .* active '
echo '{rules: [{name: own, set: {env: {RULE: own}}}]}' >"$conf"
cp "$conf" "$work/own.conf"
run nrictl plugin disable rules
run nrictl plugins
lacks '^50  *rules .* active '
run nrictl plugin enable rules
cmp "$work/own.conf" "$conf" || fail 'the configuration was replaced'
ruled=$(container ruled)
tr '\0' '\n' <"/proc/$ruled/environ" | grep -qx RULE=own || fail 'the rule was not applied'
run $name delete --force ruled
run nrictl plugin disable rules

step 'a shipped plugin is enabled as its guide says, and places a container'
# The commands of the guide that write, check and enable a policy.
awk '/^```sh$/ { text = ""; inside = 1; next }
  /^```$/ { if (inside && text ~ /plugin enable topology/) { printf "%s", text; exit } inside = 0 }
  inside { text = text $0 "\n" }' "$root/docs/topology.md" >"$work/guide.sh"
grep -q 'plugin enable topology' "$work/guide.sh" || fail 'no commands in docs/topology.md'
run bash -e "$work/guide.sh"
has '^Shared: '
[ "$(readlink /etc/$name/plugins/50-topology)" = /usr/libexec/$name/plugins/topology ] ||
  fail 'no link to the plugin'
run nri-topology status
placed=$(container backup-1)
run nri-topology status
has '^backup-1 \+batch \+shared '
run $name delete --force backup-1
wait_until dead "$placed"
run nrictl plugin disable topology
absent /etc/$name/plugins/50-topology
rm /etc/nri/conf.d/topology.conf

step 'an upgrade replaces the running nrid in its process, and the container continues'
newer 99.0-1
run dpkg -i "$work/newer.deb"
[ "$(nrid)" = "$before" ] || fail 'nrid is another process'
cmp "/proc/$before/exe" "$work/newer/usr/libexec/$name/nrid" || fail 'the previous nrid runs'
alive "$first" || fail 'the container ended'
run nrictl status --json
has '"containers":1[,}]'
second=$(container second)
adjusted "$second" || fail 'the plugin did not adjust the container'

step 'an upgrade whose nrid does not start keeps the running one'
echo '#!/bin/false' >"$work/newer/usr/libexec/$name/nrid"
sed -i 's/^Version: .*/Version: 99.0-2/' "$work/newer/DEBIAN/control"
dpkg-deb --root-owner-group -Z gzip -z 1 -b "$work/newer" "$work/broken.deb" >/dev/null
run dpkg -i "$work/broken.deb"
has 'the previous nrid continues'
alive "$before" || fail 'nrid ended'
run $name delete --force second
run dpkg -i "$work/newer.deb"

step 'an upgrade starts no nrid'
run nrictl stop
newer 99.0-3
run dpkg -i "$work/newer.deb"
! nrid_runs || fail 'nrid runs'
run nrictl start

step 'a removal names the engine that is configured, and leaves the container alone'
echo '{}' | install -D -m 644 /dev/stdin /etc/docker/daemon.json
run nrictl install docker
systemd_runs
run dpkg -r $name
has 'the configuration of docker still names the wrapper'
lacks 'containerd still names'
called "systemctl --no-reload disable --now $name.socket $name.service"
! nrid_runs || fail 'nrid runs'
alive "$first" || fail 'the container ended'
ls /etc/docker/daemon.json /opt/nri/plugins/10-adjust >/dev/null
[ -z "$(find /usr -path "*$name*" ! -path '/usr/local/*' -print -quit)" ] ||
  fail "files are left: $(find /usr -path "*$name*")"
systemd_is_absent

step 'after another installation, nrid knows the container'
run dpkg -i "$deb"
run nrictl start
run nrictl status --json
has '"containers":1[,}]'
run $name delete --force first
wait_until dead "$first"
run nrictl uninstall docker
run dpkg -r $name
lacks WARNING

if command -v rpm >/dev/null; then
  rpm() { command rpm --force-debian --dbpath "$work/rpmdb" --nodeps "$@"; }
  step 'the .rpm: installation, container, upgrade, removal'
  run rpm -i "$rpm"
  ! nrid_runs || fail 'nrid runs'
  third=$(container third)
  adjusted "$third" || fail 'the plugin did not adjust the container'
  before=$(nrid)
  # The upgrade replaces a file that differs from the running one.
  cp /usr/libexec/$name/nrid "$work/other-nrid"
  echo >>"$work/other-nrid"
  mv "$work/other-nrid" /usr/libexec/$name/nrid
  run nrictl restart
  run rpm -U --force "$rpm"
  [ "$(nrid)" = "$before" ] || fail 'nrid is another process'
  cmp "/proc/$before/exe" /usr/libexec/$name/nrid || fail 'the previous nrid runs'
  run nrictl install docker
  run rpm -e $name
  has 'the configuration of docker still names the wrapper'
  ! nrid_runs || fail 'nrid runs'
  alive "$third" || fail 'the container ended'
  absent /usr/bin/$name /usr/libexec/$name /usr/share/doc/$name /usr/share/$name
  run runc delete --force third
fi
