#!/bin/sh
# sh backup.sh <ledger|redis|workspaces>: writes one backup to $BACKUPS and keeps the newest $KEEP. A backup has its name only when it
# is complete and can be read.
set -eu
. "$(dirname "$0")/stores.sh"
what=$1
name="$BACKUPS/$what-$(date -u +%Y%m%dT%H%M%SZ)"
trap 'rm -f "$name.part"' EXIT
case $what in
  ledger) ledger_login; pg_dump --format=custom --schema=public --file="$name.part" "$DATABASE_URL" ;;
  redis)
    primary=$(redis_primary)
    REDISCLI_AUTH=$(cat "$PASSWORD_FILE") redis_at "$primary" 6379 --user backup --rdb "$name.part"
    ;;
  workspaces) tar -C "$WORKSPACES" -czf "$name.part" . ;;
  *) echo "unknown: $what" >&2; exit 2 ;;
esac
check "$what" "$name.part"
mv "$name.part" "$name"
for old in $(ls "$BACKUPS" | grep -E "^$what-[0-9TZ]+$" | sort -r | tail -n "+$((KEEP + 1))"); do rm "$BACKUPS/$old"; done
echo "$name"
