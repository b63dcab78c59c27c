#!/bin/sh
# sh backup.sh <ledger|redis|workspaces>: writes one backup to $BACKUPS and keeps the newest $KEEP. A backup has its name only when it
# is complete.
set -eu
what=$1
name="$BACKUPS/$what-$(date -u +%Y%m%dT%H%M%SZ)"
case $what in
  ledger) PGPASSWORD=$(cat "$PASSWORD_FILE") pg_dump --format=custom --file="$name.part" "$DATABASE_URL" ;;
  redis) REDISCLI_AUTH=$(cat "$PASSWORD_FILE") redis-cli -u "$REDIS_URL" --user backup --rdb "$name.part" ;;
  workspaces) tar -C "$WORKSPACES" -czf "$name.part" . ;;
  *) echo "unknown: $what" >&2; exit 2 ;;
esac
mv "$name.part" "$name"
for old in $(ls "$BACKUPS" | grep -E "^$what-[0-9TZ]+$" | sort -r | tail -n "+$((KEEP + 1))"); do rm "$BACKUPS/$old"; done
echo "$name"
