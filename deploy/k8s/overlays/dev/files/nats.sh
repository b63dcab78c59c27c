#!/bin/sh
# Starts NATS with deploy/nats.conf. Its passwords are files named after the variables; they are never in the container's
# configuration, where "inspect" would show them.
set -eu
for file in /run/secrets/NATS_*_PASSWORD; do
  # In quotes, because the server reads the value as a piece of its configuration: one that begins with a digit would be refused.
  export "$(basename "$file")=\"$(cat "$file")\""
done
exec nats-server -c /etc/nats/nats.conf -m 8222
