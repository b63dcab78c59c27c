#!/bin/sh
# Renders deploy/redis.acl.template with the passwords in /run/secrets and starts Redis: every write on disk within a second,
# nothing ever evicted (services refuse to start otherwise). REDIS_MAXMEMORY has to be well below the memory limit of the container:
# a full Redis then refuses writes, instead of being killed. The rest is for buffers and for the copy while the file is rewritten.
set -eu
umask 077
acl=/run/redis/users.acl
script=/run/redis/passwords.sed
for file in /run/secrets/REDIS_*_PASSWORD; do
  printf 's|${%s}|%s|g\n' "$(basename "$file")" "$(cat "$file")"
done > "$script"
grep -v '^#' /etc/redis/redis.acl.template | sed -f "$script" > "$acl"
rm "$script"
exec redis-server --appendonly yes --appendfsync everysec --maxmemory "$REDIS_MAXMEMORY" --maxmemory-policy noeviction --aclfile "$acl" --dir /data
