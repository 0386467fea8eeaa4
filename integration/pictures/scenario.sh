# shellcheck shell=bash
# scenario.sh: what the pictures of the documentation show: three containers of Docker that three
# plugins adjust. quick-start.sh --then runs it on its machine, with PICTURE (the program that draws)
# and PICTURES (the directory of the pictures).
nrictl install docker --default
systemctl reload docker
plugin() { # NAME, configuration from stdin
  install target/release/examples/adjust "/opt/nri/plugins/$1"
  cat >"/etc/nri/conf.d/$1.conf"
}
plugin 10-adjust <<'END'
[create]
env = { set = { HTTP_PROXY = "http://proxy.example.com:3128" } }
[create.resources]
pids = 200
END
plugin 20-memory <<'END'
[create.resources]
memory = 268435456
END
plugin 30-cpu <<'END'
[create.resources]
cpus = "0"
shares = 512
END
for name in web database batch; do
  docker run -d --network=none --name $name busybox sh -c 'while :; do sleep 0.01; done'
done
docker update --cpu-shares 256 batch
picture() { "$PICTURE" "$@"; } # COLUMNS ROWS SECONDS FILE COMMAND...
picture 100 40 10 "$PICTURES/status.svg" nrictl status
picture 100 40 10 "$PICTURES/plugins.svg" nrictl plugins
picture 100 40 10 "$PICTURES/explain.svg" nrictl explain batch
picture 100 16 5 "$PICTURES/top.svg" nrictl top
nrictl explain --html batch | picture page 1060 1000 "$PICTURES/explain-page.svg"
docker rm -f web database batch
nrictl uninstall docker
nrictl stop
