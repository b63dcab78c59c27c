#!/bin/sh
# sh restore.sh <ledger|redis|workspaces> [name]: restores a backup of $BACKUPS, the newest unless one is named. The services that
# write there have to be stopped: budget for the ledger, all of them and Redis itself for Redis.
set -eu
TABLES='drop table if exists token_usage, usage_daily, kysely_migration, kysely_migration_lock cascade'
what=$1
name="$BACKUPS/${2:-$(ls "$BACKUPS" | grep -E "^$what-[0-9TZ]+$" | sort | tail -n 1)}"
test -f "$name" || { echo "no backup of $what in $BACKUPS" >&2; exit 1; }
case $what in
  ledger)
    # `pg_restore --clean` cannot drop the keys of partitions.
    export PGPASSWORD="$(cat "$PASSWORD_FILE")"
    psql --quiet --dbname="$DATABASE_URL" --command="$TABLES"
    pg_restore --single-transaction --no-owner --dbname="$DATABASE_URL" "$name"
    ;;
  # A Redis with appendonly yes ignores dump.rdb: the snapshot becomes the base of the append-only log.
  redis)
    rm -rf "$DATA/appendonlydir" "$DATA/dump.rdb"
    mkdir "$DATA/appendonlydir"
    cp "$name" "$DATA/appendonlydir/appendonly.aof.1.base.rdb"
    echo 'file appendonly.aof.1.base.rdb seq 1 type b' > "$DATA/appendonlydir/appendonly.aof.manifest"
    ;;
  workspaces) tar -C "$WORKSPACES" -xzf "$name" ;;
  *) echo "unknown: $what" >&2; exit 2 ;;
esac
echo "$name"
