#!/bin/sh
# Starts NATS with deploy/nats.conf. Its passwords are files named after the variables; they never stand in the container's
# configuration, where "inspect" would show them.
set -eu
for file in /run/secrets/NATS_*_PASSWORD; do
  export "$(basename "$file")=$(cat "$file")"
done
exec nats-server -c /etc/nats/nats.conf -m 8222
