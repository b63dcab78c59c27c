#!/usr/bin/env bash
# Runs a command in a fresh clone of HEAD on this machine as a newcomer has it: without NATS and Redis, and without the
# libraries that came with them. They are removed in a private view of the file system; the machine itself is not changed.
#
#   test/bare-machine.sh npm start
#   test/bare-machine.sh npm test
#
#   --here    in the current folder instead of a clone
#   --strict  fail with status 3 where there can be no such view, instead of running the command plainly
#   --check   only tell by the status, 0 or 3, whether there can be such a view
#
# The view needs root, Linux and Debian's packages. The exit status is that of the command.
set -u
here= strict= check= script="$0"
while [ $# -gt 0 ]; do
  case "$1" in
    --here) here=1 ;;
    --strict) strict=1 ;;
    --check) check=1 here=1 strict=1; set -- --check true ;;
    *) break ;;
  esac
  shift
done
[ $# -gt 0 ] || { sed -n '2,12p' "$script" | cut -c3-; exit 2; }

# The brokers, and the libraries that hardly anything else brings.
PACKAGES='nats-server redis redis-server redis-sentinel redis-tools valkey-server valkey-sentinel valkey-tools libjemalloc2 liblzf1'
PROGRAMS='nats-server redis-server valkey-server'
export PACKAGES PROGRAMS

plainly() {
  printf 'bare-machine: no bare view here: %s\n' "$1" >&2
  [ -z "$strict" ] || exit 3
  shift
  exec "$@"
}

[ "$(uname -s)" = Linux ] || plainly 'not Linux' "$@"
[ "$(id -u)" = 0 ] || plainly 'not root' "$@"
for program in unshare mount dpkg-query apt-get; do
  command -v "$program" >/dev/null || plainly "no $program" "$@"
done

work="$(mktemp -d)" || plainly 'no temporary folder' "$@"
trap 'rm -rf "$work"' EXIT
folder="$PWD"
if [ -z "$here" ]; then
  command -v git >/dev/null || plainly 'no git' "$@"
  top="$(git rev-parse --show-toplevel 2>/dev/null)" || plainly 'not in a git repository' "$@"
  folder="$work/project"
  git clone -q "$top" "$folder" || plainly 'the repository cannot be cloned' "$@"
  [ -z "$(git -C "$top" status --porcelain)" ] || echo 'bare-machine: changes that are not committed are left out' >&2
fi
mkdir "$work/view"
export work folder check

# Runs in the private view; the file `ready` tells a view that failed from a command that failed.
in_view() {
  # A separate file system: the machine may be a container, whose files cannot carry another layer.
  mount -t tmpfs tmpfs "$work/view" || return
  for part in usr var etc; do
    mkdir -p "$work/view/$part/up" "$work/view/$part/work"
    layers="lowerdir=/$part,upperdir=$work/view/$part/up,workdir=$work/view/$part/work"
    mount -t overlay overlay -o "$layers" "/$part" || return
  done
  [ -z "$check" ] || { touch "$work/ready"; exit 0; }
  installed="$(dpkg-query -W -f '${db:Status-Status} ${Package}\n' $PACKAGES 2>/dev/null | sed -n 's/^installed //p')"
  if [ -n "$installed" ]; then
    # No service of the machine is stopped.
    printf '#!/bin/sh\nexit 101\n' >/usr/sbin/policy-rc.d && chmod +x /usr/sbin/policy-rc.d
    DEBIAN_FRONTEND=noninteractive apt-get purge -y $installed >"$work/purge.log" 2>&1 || { tail -5 "$work/purge.log"; return; }
    rm -f /usr/sbin/policy-rc.d
  fi
  # Programs that came another way: by hand, or unpacked by an earlier start and put on PATH.
  path=
  IFS=:
  for entry in $PATH; do
    IFS=' '
    held=
    for program in $PROGRAMS; do
      case "$entry" in
        /usr/* | /bin | /sbin) rm -f "$entry/$program" ;;
        *) [ ! -e "$entry/$program" ] || held=1 ;;
      esac
    done
    [ -n "$held" ] || path="$path${path:+:}$entry"
  done
  unset IFS
  PATH="$path"
  cd "$folder" || return
  touch "$work/ready"
  exec env -u NATS_URL -u REDIS_URL -u DATABASE_URL -u LD_LIBRARY_PATH -u work -u folder -u check -u PACKAGES -u PROGRAMS "$@"
}
export -f in_view

unshare --mount bash -c 'in_view "$@"; exit 3' bare "$@" <&0 &
child=$!
for signal in TERM HUP INT; do trap "kill -$signal $child 2>/dev/null" "$signal"; done
while :; do
  wait "$child"
  status=$?
  kill -0 "$child" 2>/dev/null || break
done
[ -e "$work/ready" ] || { rm -rf "$work"; trap - EXIT; plainly 'the view cannot be made (its reason is above)' "$@"; }
exit "$status"
