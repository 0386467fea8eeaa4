#!/bin/bash
# image.sh build --tag NAME:TAG --file DOCKERFILE CONTEXT
#   Builds an image without a registry and without a container, for BUILDER of installer/build.sh.
#   Of a Dockerfile it knows COPY and ENTRYPOINT; the base is the directory BASE_ROOT. The archive
#   OUT is an OCI layout, for `ctr images import`.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
root=$work/root blobs=$work/oci/blobs/sha256 kind=application/vnd.oci.image
mkdir -p "$root" "$blobs"
[ "$1" = build ]
shift
while [ $# -gt 1 ]; do
  case $1 in
    --tag) tag=$2 ;;
    --file) file=$2 ;;
    *) echo "image.sh: unknown option $1" >&2; exit 2 ;;
  esac
  shift 2
done
context=$1
[ -z "${BASE_ROOT:-}" ] || cp -a "$BASE_ROOT/." "$root"
entry='[]'
while read -r verb from to; do
  case $verb in
    COPY)
      case $to in */) mkdir -p "$root$to" ;; *) mkdir -p "$root${to%/*}" ;; esac
      case $from in
        */) cp -a "$context/$from." "$root$to" ;;
        *) cp -a "$context/$from" "$root$to" ;;
      esac
      ;;
    ENTRYPOINT) entry=$from${to:+ $to} ;;
  esac
done <"$file"

# put FILE: moves the file into the blobs; sets digest and size
put() {
  digest=$(sha256sum "$1" | cut -d' ' -f1) size=$(stat -c %s "$1")
  mv "$1" "$blobs/$digest"
}
case $(uname -m) in x86_64) arch=amd64 ;; aarch64) arch=arm64 ;; *) arch=$(uname -m) ;; esac
tar -C "$root" --owner=0 --group=0 --numeric-owner --mtime=@0 --sort=name -cf "$work/layer" .
put "$work/layer"
layer=$digest layer_size=$size
cat >"$work/blob" <<J
{
  "architecture": "$arch", "os": "linux",
  "config": {"Env": ["PATH=/usr/sbin:/usr/bin:/sbin:/bin"], "Entrypoint": $entry},
  "rootfs": {"type": "layers", "diff_ids": ["sha256:$layer"]}
}
J
put "$work/blob"
cat >"$work/blob" <<J
{
  "schemaVersion": 2, "mediaType": "$kind.manifest.v1+json",
  "config": {"mediaType": "$kind.config.v1+json", "digest": "sha256:$digest", "size": $size},
  "layers": [
    {"mediaType": "$kind.layer.v1.tar", "digest": "sha256:$layer", "size": $layer_size}
  ]
}
J
put "$work/blob"
cat >"$work/oci/index.json" <<J
{
  "schemaVersion": 2,
  "manifests": [{
    "mediaType": "$kind.manifest.v1+json", "digest": "sha256:$digest", "size": $size,
    "platform": {"os": "linux", "architecture": "$arch"},
    "annotations": {"io.containerd.image.name": "$tag"}
  }]
}
J
echo '{"imageLayoutVersion":"1.0.0"}' >"$work/oci/oci-layout"
tar -C "$work/oci" -cf "$OUT" .
