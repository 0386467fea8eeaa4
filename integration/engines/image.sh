#!/bin/sh
# image.sh DIR: makes two archives of two small images in DIR. Needs tar and sha256sum, and neither
# a registry nor an image tool.
#   oci.tar             an OCI layout (ctr images import)
#   docker-archive.tar  an archive as of `docker save` (docker load, podman load)
#   localhost/busybox:local has a static busybox, Cmd /bin/sh and the label
#   org.example.imagelabel=v. localhost/pause:local has the same files and sleeps endlessly, because
#   a pause container that exits stops its pod.
set -eu
[ $# = 1 ] || { sed -n '2,/^[^#]/{s/^# \{0,1\}//p}' "$0" >&2; exit 2; }
mkdir -p "$1"
out=$(cd "$1" && pwd -P) work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
root=$work/root oci=$work/oci blobs=$work/oci/blobs/sha256
case $(uname -m) in x86_64) arch=amd64 ;; aarch64) arch=arm64 ;; *) arch=$(uname -m) ;; esac

for d in bin dev proc sys tmp etc root; do mkdir -p "$root/$d"; done
cp "$(command -v busybox)" "$root/bin/busybox"
for applet in $("$root/bin/busybox" --list); do
  [ "$applet" = busybox ] || ln -s busybox "$root/bin/$applet"
done
echo root:x:0:0:root:/root:/bin/sh >"$root/etc/passwd"
echo root:x:0: >"$root/etc/group"

# pack DIR FILE: makes a reproducible archive
pack() {
  (cd "$1" && tar --owner=0 --group=0 --numeric-owner --mtime=@0 --sort=name -cf "$2" -- *)
}

# put FILE: moves the file into the blobs; sets digest and size
put() {
  digest=$(sha256sum "$1" | cut -d' ' -f1) size=$(stat -c %s "$1")
  mv "$1" "$blobs/$digest"
}

# image NAME CONFIG: adds an image to the lists of both archives
indexed='' saved=''
image() {
  cat >"$work/blob" <<J
{
  "architecture": "$arch", "os": "linux", "created": "1970-01-01T00:00:00Z", "config": $2,
  "rootfs": {"type": "layers", "diff_ids": ["sha256:$layer"]},
  "history": [{"created": "1970-01-01T00:00:00Z", "created_by": "image.sh"}]
}
J
  put "$work/blob"
  saved="$saved${saved:+,}{\"Config\":\"blobs/sha256/$digest\",\"RepoTags\":[\"$1\"],
    \"Layers\":[\"blobs/sha256/$layer\"]}"
  cat >"$work/blob" <<J
{
  "schemaVersion": 2, "mediaType": "${kind}manifest.v1+json",
  "config": {"mediaType": "${kind}config.v1+json", "digest": "sha256:$digest", "size": $size},
  "layers": [
    {"mediaType": "${kind}layer.v1.tar", "digest": "sha256:$layer", "size": $layer_size}
  ]
}
J
  put "$work/blob"
  indexed="$indexed${indexed:+,}{\"mediaType\":\"${kind}manifest.v1+json\",
    \"digest\":\"sha256:$digest\",\"size\":$size,
    \"platform\":{\"os\":\"linux\",\"architecture\":\"$arch\"},
    \"annotations\":{\"io.containerd.image.name\":\"$1\",
      \"org.opencontainers.image.ref.name\":\"${1##*:}\"}}"
}
kind=application/vnd.oci.image.

mkdir -p "$blobs"
pack "$root" "$work/layer"
put "$work/layer"
layer=$digest layer_size=$size
image localhost/busybox:local \
  '{"Env":["PATH=/bin"],"Cmd":["/bin/sh"],"Labels":{"org.example.imagelabel":"v"}}'
image localhost/pause:local '{"Env":["PATH=/bin"],"Entrypoint":["/bin/sleep","2147483647"]}'

mkdir "$work/docker"
cp -r "$oci/blobs" "$work/docker/"
echo "[$saved]" >"$work/docker/manifest.json"
echo "{\"schemaVersion\":2,\"manifests\":[$indexed]}" >"$oci/index.json"
echo '{"imageLayoutVersion":"1.0.0"}' >"$oci/oci-layout"
pack "$oci" "$out/oci.tar"
pack "$work/docker" "$out/docker-archive.tar"
