#!/bin/sh
# image.sh DIR: makes two archives of two small images in DIR, with tar and sha256sum alone: no registry, no image tool.
#   oci.tar             an OCI layout (ctr images import)
#   docker-archive.tar  as `docker save` makes them (docker load, podman load)
#   localhost/busybox:local has a static busybox, Cmd /bin/sh and the label org.example.imagelabel=v; localhost/pause:local is the same with
#   an endless sleep: a pause image that exits takes its pod away.
set -eu
[ $# = 1 ] || { sed -n '2,/^[^#]/{s/^# \{0,1\}//p}' "$0" >&2; exit 2; }
mkdir -p "$1"
out=$(cd "$1" && pwd -P) work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
root=$work/root oci=$work/oci blobs=$work/oci/blobs/sha256
case $(uname -m) in x86_64) arch=amd64 ;; aarch64) arch=arm64 ;; *) arch=$(uname -m) ;; esac

for d in bin dev proc sys tmp etc root; do mkdir -p "$root/$d"; done
cp "$(command -v busybox)" "$root/bin/busybox"
for applet in $("$root/bin/busybox" --list); do [ "$applet" = busybox ] || ln -s busybox "$root/bin/$applet"; done
echo root:x:0:0:root:/root:/bin/sh >"$root/etc/passwd"
echo root:x:0: >"$root/etc/group"

# The same bytes each time.
pack() { (cd "$1" && tar --owner=0 --group=0 --numeric-owner --mtime=@0 --sort=name -cf "$2" -- *); }

# put FILE: moves it among the blobs; its name and size are in digest and size
put() {
  digest=$(sha256sum "$1" | cut -d' ' -f1) size=$(stat -c %s "$1")
  mv "$1" "$blobs/$digest"
}

# image NAME CONFIG: adds it to both lists
indexed='' saved=''
image() {
  printf '{"architecture":"%s","os":"linux","created":"1970-01-01T00:00:00Z","config":%s,"rootfs":{"type":"layers","diff_ids":["sha256:%s"]},"history":[{"created":"1970-01-01T00:00:00Z","created_by":"image.sh"}]}' \
    "$arch" "$2" "$layer" >"$work/blob"
  put "$work/blob"
  saved="$saved${saved:+,}{\"Config\":\"blobs/sha256/$digest\",\"RepoTags\":[\"$1\"],\"Layers\":[\"blobs/sha256/$layer\"]}"
  printf '{"schemaVersion":2,"mediaType":"%smanifest.v1+json","config":{"mediaType":"%sconfig.v1+json","digest":"sha256:%s","size":%s},"layers":[{"mediaType":"%slayer.v1.tar","digest":"sha256:%s","size":%s}]}' \
    "$kind" "$kind" "$digest" "$size" "$kind" "$layer" "$layer_size" >"$work/blob"
  put "$work/blob"
  indexed="$indexed${indexed:+,}{\"mediaType\":\"${kind}manifest.v1+json\",\"digest\":\"sha256:$digest\",\"size\":$size,\"platform\":{\"os\":\"linux\",\"architecture\":\"$arch\"},\"annotations\":{\"io.containerd.image.name\":\"$1\",\"org.opencontainers.image.ref.name\":\"${1##*:}\"}}"
}
kind=application/vnd.oci.image.

mkdir -p "$blobs"
pack "$root" "$work/layer"
put "$work/layer"
layer=$digest layer_size=$size
image localhost/busybox:local '{"Env":["PATH=/bin"],"Cmd":["/bin/sh"],"Labels":{"org.example.imagelabel":"v"}}'
image localhost/pause:local '{"Env":["PATH=/bin"],"Entrypoint":["/bin/sleep","2147483647"]}'

mkdir "$work/docker"
cp -r "$oci/blobs" "$work/docker/"
echo "[$saved]" >"$work/docker/manifest.json"
echo "{\"schemaVersion\":2,\"manifests\":[$indexed]}" >"$oci/index.json"
echo '{"imageLayoutVersion":"1.0.0"}' >"$oci/oci-layout"
pack "$oci" "$out/oci.tar"
pack "$work/docker" "$out/docker-archive.tar"
