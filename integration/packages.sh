# shellcheck shell=bash
# packages.sh: functions of the scripts that unpack Debian packages of other suites than the host's,
# which source it, with the directory TREE of all that they install as the argument: programs are in
# TREE/bin, the files of packages in TREE/root, logs in TREE/log. Packages are downloaded with a
# separate apt configuration, which uses the mirror of the host. The caller defines `die`.
TREE=$1

# step NAME FUNCTION ARGS...: runs a step that was not done yet, with its output in a log. A failure
# sets `failed` and does not end the script.
failed=
step() {
  local name=$1 t=$SECONDS log=$TREE/log/$1
  shift
  mkdir -p "$TREE"/{log,done,bin,root}
  [ ! -e "$TREE/done/$name" ] || return 0
  # The function runs in the background, because the shell ignores set -e in a condition.
  (set -e; "$@") >"$log" 2>&1 &
  if wait $!; then
    touch "$TREE/done/$name"
    echo "$name: $((SECONDS - t)) s"
  else
    echo "$name: failed, see $log, which ends:" >&2
    tail -5 "$log" >&2
    # shellcheck disable=SC2034 # for the caller
    failed=1
  fi
}

# install_on_host PACKAGE...: installs packages that the host lacks
install_on_host() {
  local p missing=() install=(apt-get -q -y --no-install-recommends)
  for p in "$@"; do
    dpkg-query -W -f '${db:Status-Status}\n' "$p" 2>/dev/null | grep -qx installed ||
      missing+=("$p")
  done
  [ ${#missing[@]} -gt 0 ] || return 0
  export DEBIAN_FRONTEND=noninteractive
  install+=(-o DPkg::Lock::Timeout=300 install "${missing[@]}")
  "${install[@]}" || { apt-get -q update && "${install[@]}"; }
}

# apt_of SUITE DIR: makes an apt configuration in DIR with separate lists and no installed packages,
# so that apt resolves all dependencies
apt_of() {
  local d=$2 source key=/usr/share/keyrings/debian-archive-keyring.gpg
  mkdir -p "$d/lists/partial" "$d/cache/archives/partial"
  : >"$d/status"
  # The mirror is that of the host's apt sources.
  # shellcheck disable=SC2016
  source=$(apt-get indextargets --format '$(ORIGIN)|$(COMPONENT)|$(CREATED_BY)|$(REPO_URI)' |
    sed -n 's/^Debian|main|Packages|//p' | grep -v security | head -1)
  [ -n "$source" ] || die "no entry of Debian's main component in the host's apt sources"
  printf 'Types: deb\nURIs: %s\nSuites: %s\nComponents: main\n' "$source" "$1" >"$d/sources.sources"
  [ ! -e $key ] || printf 'Signed-By: %s\n' $key >>"$d/sources.sources"
  cat >"$d/apt.conf" <<C
Dir::Etc::SourceList "$d/sources.sources";
Dir::Etc::SourceParts "/dev/null";
Dir::State::Lists "$d/lists";
Dir::State::status "$d/status";
Dir::Cache "$d/cache";
APT::Get::List-Cleanup "0";
Acquire::Languages "none";
APT::Sandbox::User "root";
Acquire::Retries "3";
C
  APT_CONFIG=$d/apt.conf apt-get -q update
}

# unpack SUITE ROOT [PACKAGE...] -- [PACKAGE...]: unpacks packages of a suite into TREE/root/ROOT,
# those before `--` alone, those after it with their dependencies
unpack() {
  local apt=$TREE/apt/$1 d=$TREE/debs/$2 root=$TREE/root/$2 alone=() f
  rm -rf "$apt" "$d"
  apt_of "$1" "$apt"
  local -x APT_CONFIG=$apt/apt.conf
  shift 2
  mkdir -p "$d/partial" "$root"
  while [ "$1" != -- ]; do alone+=("$1"); shift; done
  shift
  [ ${#alone[@]} = 0 ] || (cd "$d" && apt-get -q download "${alone[@]}")
  [ $# = 0 ] || apt-get -q -o Dir::Cache::archives="$d" install -y -d --no-install-recommends "$@"
  for f in "$d"/*.deb; do
    dpkg-deb --fsys-tarfile "$f" |
      tar -x -C "$root" --exclude='./usr/share/doc' --exclude='./usr/share/man' \
        --exclude='./usr/share/locale' --exclude='./usr/share/perl*' \
        --exclude='./usr/lib/*-linux-gnu/perl*' --exclude='*/gconv'
  done
  rm -rf "$apt" "$d"
}

# place ROOT FILE...: links the first FILE that exists in TREE/root/ROOT into TREE/bin/ROOT. A
# dynamically linked program is copied and set to use the libraries there: by DT_RPATH, since
# DT_RUNPATH does not apply to dependencies of libraries.
place() {
  local name=$1 root=$TREE/root/$1 bin=$TREE/bin/$1 f loader libraries
  shift
  for f in "$@"; do [ -x "$root/$f" ] && break; done
  [ -x "$root/$f" ] || die "$name has no $*"
  mkdir -p "$bin"
  if loader=$(patchelf --print-interpreter "$root/$f" 2>/dev/null); then
    libraries=$(echo "$root"/usr/lib/*-linux-gnu)
    loader=$(find "$root" -name "$(basename "$loader")" -type f -print -quit)
    cp "$root/$f" "$bin/"
    patchelf --set-interpreter "$loader" --force-rpath \
      --set-rpath "$libraries:$root/lib/$(basename "$libraries")" "$bin/$(basename "$f")"
  else
    ln -sfn "$root/$f" "$bin/"
  fi
}
