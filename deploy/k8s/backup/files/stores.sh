# Read by backup.sh and restore.sh: how to reach the stores, and whether a backup is whole.

# Settings of libpq. An authority of your own is DATABASE_TLS_CA; `system` is known to libpq 16 and newer.
ledger_login() {
  if [ -n "${PASSWORD_FILE:-}" ]; then PGPASSWORD=$(cat "$PASSWORD_FILE"); export PGPASSWORD; fi
  case $DATABASE_URL in *sslmode=verify-full*) export PGSSLROOTCERT="${DATABASE_TLS_CA:-system}" ;; esac
}

# redis-cli as REDIS_URL says: with TLS or without, and by the authority of REDIS_TLS_CA or those of the system.
redis_ask() {
  case $REDIS_URL in rediss*) set -- --tls ${REDIS_TLS_CA:+--cacert "$REDIS_TLS_CA"} "$@" ;; esac
  redis-cli -e "$@"
}

# redis_ask of the server host[:port] ($1); $2 is the port where none is given.
redis_at() {
  case $1 in *:*) host=${1%:*} port=${1##*:} ;; *) host=$1 port=$2 ;; esac
  shift 2
  redis_ask -h "$host" -p "$port" "$@"
}

# host:port of the server to copy: the host of REDIS_URL, or the primary that its Sentinels name.
redis_primary() {
  address=${REDIS_URL#*://}
  hosts=${address%%[/?]*}
  case $REDIS_URL in
    *+cluster://*)
      echo "a Redis Cluster has several primaries: run the job for each of them, with redis(s)://<host>:<port> as REDIS_URL" >&2
      return 2
      ;;
    *+sentinel://*) ;;
    *) echo "$hosts"; return ;;
  esac
  case $address in
    *[?\&]name=*) master=${address##*[?&]name=} master=${master%%&*} ;;
    */*) master=${address#*/} master=${master%%[/?]*} ;;
  esac
  if [ -n "${REDIS_SENTINEL_PASSWORD_FILE:-}" ]; then REDISCLI_AUTH=$(cat "$REDIS_SENTINEL_PASSWORD_FILE"); export REDISCLI_AUTH; fi
  for sentinel in $(echo "$hosts" | tr ',' ' '); do
    named=$(redis_at "$sentinel" 26379 --raw sentinel get-master-addr-by-name "${master:-mymaster}") || continue
    set -- $named
    if [ $# -eq 2 ]; then echo "$1:$2"; return; fi
  done
  echo "no Sentinel of $hosts names a primary '${master:-mymaster}'" >&2
  return 1
}

# check <ledger|redis|workspaces> <file>: fails unless all of it can be read. Programs must be as new as the store.
check() {
  case $1 in
    ledger) pg_restore --file=/dev/null "$2" ;;
    redis) redis-check-rdb "$2" >/dev/null ;;
    workspaces) gzip -t "$2" ;;
  esac || { echo "$2 is not a whole backup of $1" >&2; return 1; }
}
