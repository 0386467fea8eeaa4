#!/bin/sh
# cni.sh: a network plugin (https://www.cni.dev/docs/spec/) that gives a pod the address 10.9.8.7 on
# a pair of interfaces inside the pod. It changes nothing outside of the pod's network namespace.
# With the name `loopback` (a symbolic link) it sets up the interface lo.
set -eu
name=$(basename "$0")
version=$(tr -d ' \n\t' | sed -n 's/.*"cniVersion":"\([^"]*\)".*/\1/p')
in_pod() { nsenter "--net=$CNI_NETNS" ip "$@" >&2; }
case $CNI_COMMAND in
  VERSION) echo '{"cniVersion":"1.0.0","supportedVersions":["0.3.1","0.4.0","1.0.0"]}' ;;
  ADD)
    if [ "$name" = loopback ]; then
      in_pod link set lo up
      address=127.0.0.1/8
    else
      address=10.9.8.7/24
      in_pod link add "$CNI_IFNAME" type veth peer name peer
      in_pod link set "$CNI_IFNAME" up
      in_pod addr add $address dev "$CNI_IFNAME"
    fi
    printf '{"cniVersion":"%s","interfaces":[{"name":"%s","sandbox":"%s"}],' \
      "$version" "$CNI_IFNAME" "$CNI_NETNS"
    printf '"ips":[{"version":"4","interface":0,"address":"%s"}]}\n' $address
    ;;
  *) ;; # DEL: the kernel removes the interfaces with the namespace
esac
