#!/bin/sh
# Runs as root in the throw-away Debian of check_in_chroot.sh, under its systemd: what an integrator does with the package, from
# the first installation to the purge. Says each step; the first that fails ends it, with what systemd and modeld say.
# Needs /check/modeld.deb and /check/newer.deb, the same with a higher version and another configuration.
export PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LC_ALL=C DEBIAN_FRONTEND=noninteractive
camera=
say() { echo "  $*"; }
fail() {
  echo "FAILED: $*"
  systemctl --no-pager --lines=8 status modeld.service modeld-selftest.service 2>&1 | tail -30
  [ -z "$camera" ] || cat /check/camera.log
  exit 1
}
expect() { what=$1; shift; out=$("$@" 2>&1) || { echo "$out" | tail -5; fail "$what"; }; }
expect_not() { what=$1; shift; if "$@" >/dev/null 2>&1; then fail "$what"; fi; }
said() { echo "$out" | grep -q -i -E "$1"; }
# Asked again until it holds: this is not about speed.
within_a_minute() {
  what=$1; shift
  tries=0
  until "$@"; do tries=$((tries + 1)); [ $tries -lt 300 ] || fail "not within a minute: $what"; sleep 0.2; done
}
in_state() { [ "$(modelctl status 2>/dev/null | grep -c -E "^(road|cabin) +$1 ")" = 2 ]; }
main_pid() { systemctl show --value -p MainPID modeld.service; }
is_another() { [ "$(main_pid)" != "$1" ] && [ "$(main_pid)" != 0 ]; }

say "installed, it does nothing by itself"
expect "dpkg -i fails" dpkg -i /check/modeld.deb
expect_not "it is enabled" systemctl is-enabled modeld.service
expect_not "it was started" systemctl is-active modeld.service
expect "udev cannot try rules here" udevadm test --action=add /class/mem/null
said 'Reading rules file: /usr/lib/udev/rules.d/70-modeld.rules' || fail "udev does not read the rules"
if said '70-modeld.rules:'; then fail "udev complains of the rules"; fi

say "started without bundles, it says what is missing"
expect "it does not start" systemctl start modeld.service
within_a_minute "both models UNAVAILABLE(bundle_missing)" in_state 'UNAVAILABLE\(bundle_missing\)'
expect "it does not stop" systemctl stop modeld.service modeld-selftest.service
systemctl reset-failed modeld-selftest.service 2>/dev/null

say "with bundles and enabled, it passes the self-test and runs them"
cp /check/road.bundle /check/cabin.bundle /var/lib/modeld/
expect "systemctl enable --now fails" systemctl enable --now modeld.service
# One item of the self-test takes times, and other work of this machine takes time as well: three tries.
for try in 1 2; do
  systemctl --quiet is-active modeld-selftest.service && break
  systemctl reset-failed modeld-selftest.service
  systemctl restart modeld-selftest.service modeld.service
done
expect "the boot self-test failed" systemctl is-active modeld-selftest.service
# The camera server's user has nothing but the group.
setpriv --reuid=nobody --regid=nogroup --groups="$(getent group modeld | cut -d : -f 3)" modelcam --source synth >/check/camera.log 2>&1 &
camera=$!
within_a_minute "both models READY" in_state READY
expect "systemctl status fails" systemctl status modeld.service
said 'status: "road (READY|DEGRADED)[a-z_()]*, cabin (READY|DEGRADED)[a-z_()]*"' || fail "systemctl status does not say how the models stand"
expect "modelctl watch fails" modelctl watch --seconds 2

expect "modelctl metrics fails" modelctl metrics
expect "reload fails" systemctl reload modeld.service
within_a_minute "both models READY after a reload" in_state READY

say "an upgrade starts the new one and keeps the owner's configuration"
echo '# the owner was here' >>/etc/modeld/modeld.toml
pid=$(main_pid)
expect "the upgrade fails" dpkg -i --force-confold /check/newer.deb
within_a_minute "another daemon after the upgrade" is_another "$pid"
within_a_minute "both models READY after the upgrade" in_state READY
expect "the configuration was overwritten" grep -q 'the owner was here' /etc/modeld/modeld.toml
expect "the new configuration is not beside it" test -e /etc/modeld/modeld.toml.dpkg-dist

say "stopped by its owner, it stays stopped over an upgrade"
expect "it does not stop" systemctl stop modeld.service
expect "the upgrade fails" dpkg -i --force-confold /check/newer.deb
expect_not "the upgrade started it" systemctl is-active modeld.service
expect "it does not start again" systemctl start modeld.service

say "removed, nothing runs; bundles and configuration stay"
expect "dpkg -r fails" dpkg -r modeld
expect_not "a process is left" pgrep -u modeld
expect_not "systemd still knows it as running" systemctl is-active modeld.service
expect_not "a program stays" test -e /usr/bin/modeld
expect "a bundle is gone" test -e /var/lib/modeld/cabin.bundle
expect "the configuration is gone" grep -q 'the owner was here' /etc/modeld/modeld.toml
kill "$camera"; wait "$camera"; camera=

say "purged, nothing of it is there"
expect "dpkg -P fails" dpkg -P modeld
if said 'warning|error|not empty'; then fail "the purge complains: $out"; fi
expect_not "/run/modeld stays" test -e /run/modeld
expect_not "the user stays" getent passwd modeld
echo done
