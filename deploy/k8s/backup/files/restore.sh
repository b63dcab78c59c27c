#!/bin/sh
# sh restore.sh <ledger|redis|workspaces> [name]: restores a backup of $BACKUPS, the newest unless one is named. The backup is read to its
# end first and restored next to the data, which it then replaces at once: what fails before that changes nothing. Replaced data stays, in
# the schema before_restore or the folder before-restore, until the next restore. The services that write there have to be stopped:
# budget, records and identity for the ledger, with which they share a database, all of them and Redis itself for Redis.
set -eu
. "$(dirname "$0")/stores.sh"
what=$1
name="$BACKUPS/${2:-$(ls "$BACKUPS" | grep -E "^$what-[0-9TZ]+$" | sort | tail -n 1)}"
test -f "$name" || { echo "no backup of $what in $BACKUPS" >&2; exit 1; }

# One transaction: it moves the tables away, makes them from the backup, and is committed only after the last row.
restored_ledger() {
  cat <<'SQL'
begin;
do $$ declare services text; begin
  select string_agg(distinct substr(application_name, 11), ', ') into services
    from pg_stat_activity where datname = current_database() and application_name like 'toolfleet-%';
  if services is not null then
    raise exception 'still connected to this database: %; stop them first', services;
  end if;
end $$;
drop schema if exists before_restore cascade;
create schema before_restore;
do $$ declare name regclass; begin
  for name in select oid from pg_class where relnamespace = 'public'::regnamespace and relkind in ('r', 'p') loop
    execute format('alter table %s set schema before_restore', name);
  end loop;
end $$;
SQL
  if pg_restore --no-owner --schema=public --file=- "$name"; then echo 'commit;'; else
    echo "do \$\$ begin raise exception 'the backup cannot be read'; end \$\$;"
  fi
}

check "$what" "$name"
case $what in
  ledger)
    ledger_login
    restored_ledger | psql --quiet --no-psqlrc --set=ON_ERROR_STOP=1 --dbname="$DATABASE_URL" >/dev/null
    ;;
  # A Redis with appendonly yes ignores dump.rdb: the snapshot becomes the base of the append-only log.
  redis)
    beside="$DATA/restored"
    rm -rf "$beside"
    mkdir "$beside"
    cp "$name" "$beside/appendonly.aof.1.base.rdb"
    check redis "$beside/appendonly.aof.1.base.rdb"
    echo 'file appendonly.aof.1.base.rdb seq 1 type b' > "$beside/appendonly.aof.manifest"
    sync
    # Without a log the last switch was interrupted, and what it replaced is already there.
    if [ -e "$DATA/appendonlydir" ]; then
      rm -rf "$DATA/before-restore"
      mkdir "$DATA/before-restore"
      mv "$DATA/appendonlydir" "$DATA/before-restore/"
    fi
    mv "$beside" "$DATA/appendonlydir"
    ;;
  workspaces) tar -C "$WORKSPACES" -xzf "$name" ;;
  *) echo "unknown: $what" >&2; exit 2 ;;
esac
echo "$name"
